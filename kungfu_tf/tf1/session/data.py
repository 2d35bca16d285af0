"""Gives all peers of an Estimator the same number of batches, and counts their samples."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf.data.even import agree, prolong, with_counts


def evened(dataset: tf.data.Dataset) -> tuple[tf.data.Dataset, bool]:
    """The dataset, in the TF1 graph that is being built, with the same length on all peers.

    All peers must call it.

    Returns:
        The dataset, and whether its batches are counted: then its elements are pairs of a number of
        samples and a batch, and stand-ins for missing batches have 0 samples.
    """
    cardinality = _cardinality(dataset)
    with eager.eager_mode():
        plan = agree(dataset, cardinality=cardinality, name="session/data")
    if plan.is_even:
        return dataset, False
    return with_counts(prolong(dataset, plan)), True


def _cardinality(dataset: tf.data.Dataset) -> int:
    """The number of batches, if the graph so far tells it."""
    count = dataset.cardinality()
    with tf.compat.v1.Session(graph=count.graph) as session:
        try:
            return int(session.run(count))
        except tf.errors.OpError:
            return int(tf.data.UNKNOWN_CARDINALITY)
