"""Horovod's modules for TensorFlow, made of kungfu_tf. See `kungfu_tf.compat`."""

from horovod.runner import run

__all__ = ["run"]

__version__ = "0.28.1"  # of Horovod, whose names are here
