"""Gradients that one peer finds finite and another does not."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops


def all_finite_or_none(gradients: list[Any], name: str) -> list[Any]:
    """The gradients, or NaN in place of all, if some peer has one that is not finite.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        name: The name of the collective.
    """
    given = [i for i, g in enumerate(gradients) if g is not None]
    values = [tf.convert_to_tensor(getattr(gradients[i], "values", gradients[i])) for i in given]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(v)) for v in values])
    everywhere = ops.all_reduce(tf.cast(finite, tf.uint8), op="min", name=name)
    factors = tf.where(tf.equal(everywhere, 1), 1.0, float("nan"))
    result = list(gradients)
    for i, value in zip(given, values, strict=True):
        scaled = value * tf.cast(factors, value.dtype)
        result[i] = (
            tf.IndexedSlices(scaled, gradients[i].indices, gradients[i].dense_shape)
            if isinstance(gradients[i], tf.IndexedSlices)
            else scaled
        )
    return result
