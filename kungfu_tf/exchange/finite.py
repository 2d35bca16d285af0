"""One decision of all peers on whether their gradients are finite."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.ops.gradient_values import values_of, with_values


def all_finite_or_none(gradients: list[Any], name: str) -> list[Any]:
    """The gradients; if those of any peer are not all finite, NaN in place of each.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        name: The name of the collective.
    """
    given = [i for i, g in enumerate(gradients) if g is not None]
    values = [values_of(gradients[i]) for i in given]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(v)) for v in values])
    everywhere = ops.all_reduce(tf.cast(finite, tf.uint8), op="min", name=name)
    factor = tf.where(tf.equal(everywhere, 1), 1.0, float("nan"))
    result = list(gradients)
    for i, value in zip(given, values, strict=True):
        result[i] = with_values(gradients[i], value * tf.cast(factor, value.dtype))
    return result
