"""The command line, and what else the user gives."""
