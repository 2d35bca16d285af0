"""Callbacks that work in Keras 3 and Keras 2."""
