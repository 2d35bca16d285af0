"""Horovod's means of integers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops


def divided_by_size(x: Any, factor: float = 1.0) -> Any:
    """`factor · x / size` of integers: in float64, and cut off."""
    wide = tf.cast(x, tf.float64)
    if factor != 1.0:
        wide *= factor
    return tf.cast(wide / tf.cast(ops.cluster_size(), tf.float64), x.dtype)
