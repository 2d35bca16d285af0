"""Horovod's arithmetic: factors, and means of integers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops

__all__ = ["divided_by_size", "scaled"]


def scaled(x: Any, factor: float) -> Any:
    """`factor · x`. Integers are multiplied in float64 and cut off, float16 in float32."""
    if factor == 1.0:
        return x
    wide = _wide(x.dtype)
    return tf.cast(tf.cast(x, wide) * tf.cast(factor, wide), x.dtype)


def divided_by_size(x: Any, factor: float = 1.0) -> Any:
    """`factor · x / size` of integers: in float64, and cut off."""
    wide = tf.cast(x, tf.float64)
    if factor != 1.0:
        wide *= factor
    return tf.cast(wide / tf.cast(ops.cluster_size(), tf.float64), x.dtype)


def _wide(dtype: tf.DType) -> tf.DType:
    if dtype.is_integer:
        return tf.float64
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype
