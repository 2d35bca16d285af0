"""Sockets and their protocols, the secrets of a job, and signals."""
