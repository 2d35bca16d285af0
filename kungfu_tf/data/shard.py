"""Dealing out the elements of a `tf.data` pipeline."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import _keras, peer
from kungfu_tf.data.empty import check_dataset

_log = logging.getLogger(__name__)


def shard(dataset: tf.data.Dataset, *, remainder: str = "drop") -> tf.data.Dataset:
    """Returns this peer's part of a dataset, as long as every other peer's unless told otherwise.

    Elements are dealt out like cards, in rounds: of `size` peers, rank r gets the elements
    r, r + size, r + 2·size, ... Only whole rounds are dealt, so that no peer has a batch more than
    the others; `remainder` says what becomes of the rest.

    What an element is, is the dataset's affair:

    - **Samples**: batch afterwards, `shard(samples).batch(b)`. Step s of all peers together trains
      on the samples that step s of one process with batches of size·b has, the last, smaller batch
      included: the peers' batches are equally large in every step.
    - **Batches**: each is dealt out whole, so step s of all peers together trains on `size`
      successive batches. The mean over peers weighs batches alike: if the last one is smaller its
      samples weigh more. Where that matters use `dataset.batch(b, drop_remainder=True)`, or
      `shard(dataset.unbatch()).batch(b)`.

    All peers must see the same elements in the same order. Shuffle afterwards, or before with a
    seed that all peers share. Every peer reads the whole dataset up to here, so shard early, before
    costly transformations.

    Args:
        dataset: The same on every peer.
        remainder: What becomes of the last, incomplete round (up to size − 1 elements):
            "drop": nobody gets it; rank 0 logs how much that is.
            "repeat": it is filled up from the dataset's start: every element is dealt at least
            once, and up to size − 1 of them twice.
            "keep": ranks get what there is, and some one element more than others. For evaluation
            and prediction; training would not end.

    Returns:
        The part; of a process that is alone `dataset` itself.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
        ValueError: If there would be nothing for a peer to train on, or `remainder` is none of the
            three.

    Example:

    ```python
    samples = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = kf.data.shard(samples).shuffle(10_000).batch(32)
    ```
    """
    check_dataset(dataset)
    if remainder not in ("drop", "repeat", "keep"):
        raise ValueError(f"remainder is 'drop', 'repeat' or 'keep', not {remainder!r}")
    if peer.alone():
        return dataset
    if _keras.packages():
        _watch_fit()
    return deal(dataset, peer.rank(), peer.size(), remainder)


def _watch_fit() -> None:
    """Who deals out data and then trains a plain optimizer on them is warned."""
    from kungfu_tf._callback import install

    install()


def deal(dataset: tf.data.Dataset, rank: int, size: int, remainder: str) -> tf.data.Dataset:
    """`shard` for the given rank of so many."""
    if size == 1:
        return dataset
    if remainder == "keep":
        return dataset.shard(size, rank)
    count = _count(dataset)
    if count == tf.data.INFINITE_CARDINALITY:
        return dataset.shard(size, rank)
    if remainder == "repeat":
        # An incomplete round becomes a whole one; of a whole one's extra elements none is dealt.
        dataset = dataset.concatenate(dataset.repeat().take(size - 1))
        count = count if count == tf.data.UNKNOWN_CARDINALITY else count + size - 1
    elif rank == 0:
        _log_dropped(count, size)
    if count == tf.data.UNKNOWN_CARDINALITY:
        return _from_whole_rounds(dataset, rank, size)
    if count < size:
        raise ValueError(f"{count} elements are too few for {size} peers")
    return dataset.take(count - count % size).shard(size, rank)


def _count(dataset: tf.data.Dataset) -> int:
    count = tf.get_static_value(dataset.cardinality())  # None while a TF1 graph is built
    return tf.data.UNKNOWN_CARDINALITY if count is None else int(count)


def _from_whole_rounds(dataset: tf.data.Dataset, rank: int, size: int) -> tf.data.Dataset:
    """Element `rank` of every `size` elements. An element may be a nested structure."""

    def mine(*window: Any) -> tf.data.Dataset:
        whole = window[0] if len(window) == 1 else window
        return tf.data.Dataset.zip(whole).skip(rank).take(1)

    return dataset.window(size, drop_remainder=True).flat_map(mine)


def _log_dropped(count: int, size: int) -> None:
    if count == tf.data.UNKNOWN_CARDINALITY:
        _log.warning(
            "data.shard: the dataset's length is unknown; if it is not a multiple of %d, %s of "
            "each pass used by no peer",
            size,
            "the last element is" if size == 2 else f"the last elements, up to {size - 1}, are",
        )
    elif count % size:
        _log.warning(
            "data.shard: the last %d of %d elements are used by no peer: %d peers get %d each",
            count % size,
            count,
            size,
            count // size,
        )
