"""The numbers in a gradient, which may be dense or sparse rows (`tf.IndexedSlices`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def values_of(gradient: Any) -> Any:
    """The elements of a dense gradient, or the rows of a sparse one: a tensor."""
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    return tf.convert_to_tensor(gradient.values if is_sparse else gradient)


def with_values(gradient: Any, values: Any) -> Any:
    """The gradient with other values. A sparse one keeps its indices."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def unique_rows(sparse: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient with each index once: rows of one index are added up."""
    indices, places = tf.unique(sparse.indices)
    values = tf.math.unsorted_segment_sum(sparse.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, sparse.dense_shape)


def tied(gradients: Sequence[Any], done: Sequence[Any]) -> list[Any]:
    """The same gradients, which in a TF1 graph wait for operations that nothing else needs.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        done: What assignments return.
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        return list(gradients)
    with tf.control_dependencies([tf.convert_to_tensor(one) for one in done]):
        return [None if g is None else with_values(g, tf.identity(values_of(g))) for g in gradients]
