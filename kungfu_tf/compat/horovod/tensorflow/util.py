"""Which mode TensorFlow is in."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["_executing_eagerly"]


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())
