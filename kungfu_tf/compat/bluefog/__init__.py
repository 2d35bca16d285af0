"""BlueFog's modules for TensorFlow, made of kungfu_tf. See `kungfu_tf.compat`."""

__version__ = "0.3.0"  # of BlueFog, whose names are here
