"""Helpers for programs of TensorFlow 1."""
