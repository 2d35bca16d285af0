"""The command line, and the secrets that a user gives."""
