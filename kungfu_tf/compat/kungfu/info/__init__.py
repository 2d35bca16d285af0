"""`python -m kungfu.info`: versions, libraries and settings."""

from kungfu_tf.info import main as show

__all__ = ["show"]
