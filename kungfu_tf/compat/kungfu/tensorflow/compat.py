"""Names that TensorFlow 1 and 2 have in different places."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = [
    "_tf_assign",
    "_tf_hook",
    "_tf_major_version",
    "_tf_minor_version",
    "_tf_mod",
    "_tf_optimizer",
]

_tf_major_version, _tf_minor_version = map(int, tf.__version__.split(".")[:2])
_tf_hook = tf.compat.v1.train.SessionRunHook
_tf_optimizer = tf.compat.v1.train.Optimizer
_tf_mod = tf.math.floormod


def _tf_assign(ref: Any, value: Any, use_locking: bool = False) -> Any:
    """Assigns, and returns the operation."""
    return tf.compat.v1.assign(ref, value, use_locking=use_locking)
