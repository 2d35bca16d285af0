"""Sizes of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from kungfu_tf import _lib


def squared_norm(gradients: Iterable[Any], *, wanted: Any = True) -> Any:
    """|g|², g being all gradients together: a float64 scalar, of the same bits on all peers.

    Args:
        gradients: Tensors, `tf.IndexedSlices`, or None, which counts nothing.
        wanted: A bool scalar. Where it is false the result is NaN, and hardly costs anything.
    """
    by_dtype: dict[Any, list[Any]] = {}
    for values in (_values(g) for g in gradients if g is not None):
        by_dtype.setdefault(values.dtype, []).append(values)
    squares = [_lib.load_ops().kungfu_squared_norm(wanted, group) for group in by_dtype.values()]
    return tf.add_n(squares) if squares else tf.constant(0.0, tf.float64)


def _values(gradient: Any) -> Any:
    """Elements whose squares add up to the norm: slices of one index are one."""
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    indices, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
