"""Peers come, go and fail: their wanted number, and their common state after a change."""
