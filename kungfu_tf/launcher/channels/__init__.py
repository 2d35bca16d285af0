"""How the parts of a job speak to each other: sockets, their protocols and secrets, signals."""
