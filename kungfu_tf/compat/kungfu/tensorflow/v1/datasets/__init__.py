"""Data sets whose files `kungfu.tensorflow.v1.helpers` reads."""

from kungfu.tensorflow.v1.helpers import cifar, mnist

__all__ = ["cifar", "mnist"]
