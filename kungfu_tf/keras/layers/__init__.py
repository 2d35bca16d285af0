"""Layers whose statistics are those of all peers."""
