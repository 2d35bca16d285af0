"""An Estimator's data: as many batches on every peer, each counted by its samples."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf.data.even import agree, prolong, with_counts


def evened(dataset: tf.data.Dataset) -> tuple[tf.data.Dataset, bool]:
    """The dataset, in the TF1 graph that is being built, with the length that all peers have.

    All peers must call it.

    Returns:
        The dataset, and whether its batches are counted: then its elements are pairs, of a number
        of samples and a batch. One that stands in for a missing batch has 0.
    """
    cardinality = _cardinality(dataset)
    with eager.eager_mode():
        plan = agree(dataset, cardinality=cardinality, name="session/data")
    if plan.is_even:
        return dataset, False
    return with_counts(prolong(dataset, plan)), True


def _cardinality(dataset: tf.data.Dataset) -> int:
    """The number of batches, where the graph so far is enough to know it."""
    count = dataset.cardinality()
    with tf.compat.v1.Session(graph=count.graph) as session:
        try:
            return int(session.run(count))
        except tf.errors.OpError:
            return int(tf.data.UNKNOWN_CARDINALITY)
