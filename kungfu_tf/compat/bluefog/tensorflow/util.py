"""What BlueFog's tests of TensorFlow ask for."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["_executing_eagerly", "_has_eager"]

_has_eager = True


def _executing_eagerly() -> bool:
    """Whether operations run at once."""
    return bool(tf.executing_eagerly())
