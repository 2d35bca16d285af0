"""The numbers in a gradient, which may be dense or sparse rows (`tf.IndexedSlices`)."""

from __future__ import annotations

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
