"""Peers come, go and fail: how many there should be, and what they have in common then."""
