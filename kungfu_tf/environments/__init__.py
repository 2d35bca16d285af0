"""Who starts processes besides `kungfu-run`, and which variables of theirs say so."""
