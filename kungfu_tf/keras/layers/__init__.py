"""Layers with statistics over all peers."""
