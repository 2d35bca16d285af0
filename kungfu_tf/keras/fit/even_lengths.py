"""Datasets that end with empty batches, so that all peers have the same number of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.empty import allows_any_size, empty_batches, like_the_last
from kungfu_tf.data.rebatch import Sizes
from kungfu_tf.keras.fit.elastic_run import ElasticRun


def even_in_each_epoch(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset, prolonged from `mine` to `length` batches in each epoch.

    The dataset may hold the batches of several epochs, as in Keras 2.
    """
    empty = empty_batches(dataset.element_spec)
    if mine == length:
        return dataset
    has = tf.data.Dataset.from_tensors(np.int64(0)).repeat(mine)
    lacks = has.concatenate(tf.data.Dataset.from_tensors(np.int64(1)).repeat(length - mine))
    chosen = tf.data.Dataset.choose_from_datasets([dataset, empty], lacks.repeat())
    return like_the_last(chosen)


def even_in_each_pass(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset, prolonged from `mine` to `length` batches in each pass.

    If its batches have a fixed size, the result is one of batches of any size, even if none is
    empty. A later call of `fit` may need empty ones, and no function is then traced anew.
    """
    if peer.is_single_process() or (mine == length and allows_any_size(dataset.element_spec)):
        return dataset
    empty = empty_batches(dataset.element_spec)
    longer = dataset.concatenate(empty.take(length - mine))
    return longer if mine == length else like_the_last(longer)


def even_where_sizes_change(
    dataset: tf.data.Dataset, sizes: Sizes, elastic_run: ElasticRun
) -> tf.data.Dataset:
    """The dataset, with an empty batch at the end if rank 0 has a sample, and so a batch, more."""

    def lacks() -> bool:
        rank, _ = elastic_run.position.among
        mine, most = elastic_run.samples_of_rank(rank), elastic_run.samples_of_rank(0)
        return mine < most and bool(sizes.begun_samples() == mine)

    def ask(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lacks, [], tf.bool), [])

    one = tf.data.Dataset.range(1).filter(ask)
    empty = empty_batches(dataset.element_spec)
    return dataset.concatenate(tf.data.Dataset.zip((one, empty)).map(lambda _, batch: batch))
