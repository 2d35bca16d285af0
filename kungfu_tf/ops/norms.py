"""Sizes of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def squared_norm(gradients: Iterable[Any]) -> Any:
    """|g|², g being all gradients together: a float64 scalar.

    Args:
        gradients: Tensors, `tf.IndexedSlices`, or None, which counts nothing.
    """
    squares = [_squared(_values(g)) for g in gradients if g is not None]
    return tf.add_n(squares) if squares else tf.constant(0.0, tf.float64)


def _squared(values: Any) -> Any:
    if values.dtype.is_complex:
        return _squared(tf.math.real(values)) + _squared(tf.math.imag(values))
    if values.dtype in (tf.float16, tf.bfloat16):
        values = tf.cast(values, tf.float32)
    return 2 * tf.cast(tf.nn.l2_loss(values), tf.float64)


def _values(gradient: Any) -> Any:
    """Elements whose squares add up to the norm: slices of one index are one."""
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    indices, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
