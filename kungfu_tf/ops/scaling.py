"""Factors before and after a reduction."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops.gradient_values import values_of, with_values
from kungfu_tf.ops.tensors import label


def scaled(value: Any, factor: float) -> Any:
    """`factor · value`. Integers are multiplied in float64 and cut off, float16 in float32.

    Args:
        value: A tensor, or what can become one; `tf.IndexedSlices`; or None, which stays None.
        factor: With 1 the value stays as it is.

    Raises:
        UnsupportedTypeError: If its elements are no numbers.
    """
    if factor == 1.0 or value is None:
        return value
    x = tf.convert_to_tensor(values_of(value))
    if not (x.dtype.is_integer or x.dtype.is_floating or x.dtype.is_complex):
        raise errors.UnsupportedTypeError(
            f"prescale and postscale are not defined for {label(value)} of dtype {x.dtype.name}"
        )
    return with_values(value, times(x, factor))


def times(tensor: Any, weight: Any) -> Any:
    """`weight · tensor`, of a tensor of numbers and a scalar, rounded as the core does."""
    wide = _wide(tensor.dtype)
    return tf.cast(tf.cast(tensor, wide) * tf.cast(weight, wide), tensor.dtype)


def _wide(dtype: tf.DType) -> tf.DType:
    if dtype.is_integer:
        return tf.float64
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype
