"""Datasets with empty batches behind their own, so that all peers have the same number."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.empty import allows_any_size, empty_batches, like_the_last
from kungfu_tf.data.rebatch import Sizes
from kungfu_tf.keras.fit.elastic_run import ElasticRun


def even_in_each_epoch(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset with `length` batches of each epoch, of which it has `mine`.

    It may continue with the batches of the next epoch, as Keras 2 has it.
    """
    empty = empty_batches(dataset.element_spec)
    if mine == length:
        return dataset
    has = tf.data.Dataset.from_tensors(np.int64(0)).repeat(mine)
    lacks = has.concatenate(tf.data.Dataset.from_tensors(np.int64(1)).repeat(length - mine))
    chosen = tf.data.Dataset.choose_from_datasets([dataset, empty], lacks.repeat())
    return like_the_last(chosen)


def even_in_each_pass(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset with `length` batches, of which it has `mine`, in each pass through it.

    The first call of `fit` may lack none, and a later one some. So a dataset that knows the size of
    its batches, as empty ones do not, forgets it: no function is traced anew for that.
    """
    if peer.is_single_process() or (mine == length and allows_any_size(dataset.element_spec)):
        return dataset
    empty = empty_batches(dataset.element_spec)
    longer = dataset.concatenate(empty.take(length - mine))
    return longer if mine == length else like_the_last(longer)


def even_where_sizes_change(
    dataset: tf.data.Dataset, sizes: Sizes, elastic_run: ElasticRun
) -> tf.data.Dataset:
    """The dataset, with an empty batch if rank 0 has one sample, and so one batch, more."""

    def lacks() -> bool:
        mine, most = elastic_run.samples_of_rank(peer.rank()), elastic_run.samples_of_rank(0)
        return mine < most and bool(sizes.begun_samples() == mine)

    def ask(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lacks, [], tf.bool), [])

    one = tf.data.Dataset.range(1).filter(ask)
    empty = empty_batches(dataset.element_spec)
    return dataset.concatenate(tf.data.Dataset.zip((one, empty)).map(lambda _, batch: batch))
