"""Which hosts, ports, GPUs and cores the peers get."""
