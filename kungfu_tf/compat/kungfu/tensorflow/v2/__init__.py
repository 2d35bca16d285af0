"""Helpers for programs of TensorFlow 2."""
