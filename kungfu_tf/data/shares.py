"""This peer's share of a dataset, or of arrays, from a position on.

Each pass through it begins at the current position, with the current rank and size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.data.dealt import Dealt, remember_dealt
from kungfu_tf.data.position import Position


def share_of_dataset(
    dataset: tf.data.Dataset, position: Position, shuffle: int | None, seed: int
) -> tf.data.Dataset:
    """The samples of a dataset that this peer is dealt.

    Args:
        dataset: A dataset of samples, the same on every peer and in every pass.
        position: The position where each pass begins.
        shuffle: The buffer to shuffle with; None: the samples are not shuffled.
        seed: The seed of the order in all epochs.
    """
    position.of_length(_length(dataset))
    if tf.executing_eagerly():
        _check_repeats(dataset)

    @tf.autograph.experimental.do_not_convert
    def deal(now: Any) -> tf.data.Dataset:
        # Not tf.unstack: beside a dataset from outside TensorFlow (to 2.21) crashes at it.
        now = tf.ensure_shape(now, [None])
        epoch, sample, rank, size, is_mine = now[0], now[1], now[2], now[3], now[4:]
        # Independent of tf.random.set_seed, which need not be the same on all peers.
        tf.compat.v1.get_default_graph().seed = 1
        ordered = dataset
        if shuffle:
            of_epoch = seed + epoch * _FAR
            ordered = dataset.shuffle(shuffle, seed=of_epoch, reshuffle_each_iteration=False)
        # One of the two parts is empty, and reads nothing: skip(-1) skips all.
        has_gaps = tf.size(is_mine, tf.int64) > 0
        return _chosen(ordered, is_mine).concatenate(
            ordered.skip(tf.where(has_gaps, np.int64(-1), sample)).shard(size, rank)
        )

    dealt = _when_begun(lambda: _now(position)).flat_map(deal)
    return remember_dealt(_left_at_once(dealt), position)


def share_of_arrays(
    arrays: Any, position: Position, batch_size: int, *, shuffle: bool, seed: int
) -> tf.data.Dataset:
    """Batches of the rows of arrays that this peer is dealt.

    Args:
        arrays: Arrays of one length, in any nesting; None stays.
        position: The position where each pass begins.
        batch_size: The batch size of each peer.
        shuffle: Whether each epoch has an order of its own.
        seed: The seed of the order in all epochs.

    Raises:
        ValueError: If their lengths differ, or there is no array.
    """
    tensors = tf.nest.map_structure(
        lambda a: None if a is None else tf.convert_to_tensor(a), arrays
    )
    lengths = {int(t.shape[0]) for t in tf.nest.flatten(tensors) if t is not None}
    if len(lengths) != 1:
        raise ValueError(f"arrays of one length are needed, not of {sorted(lengths)} samples")
    [length] = lengths
    position.of_length(length)

    def numbers() -> Any:
        mine = _mine(position)
        if shuffle:
            return np.random.default_rng((seed, position.epoch)).permutation(length)[mine]
        return mine

    @tf.autograph.experimental.do_not_convert
    def gather(mine: Any) -> Any:
        return tf.nest.map_structure(lambda t: None if t is None else tf.gather(t, mine), tensors)

    @tf.autograph.experimental.do_not_convert
    def slices(mine: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(mine, [None]))

    batches = _when_begun(numbers).flat_map(slices).batch(batch_size).map(gather)
    return remember_dealt(_left_at_once(batches.prefetch(_AHEAD)), Dealt(position, batch_size))


_FAR = 1_000_003  # between the seeds of two epochs
_AHEAD = 2  # batches


def _now(position: Position) -> Any:
    """Epoch, sample, rank and size; if there are gaps, then 1 for each sample of this peer."""
    place = np.array([position.epoch, position.sample, *position.among])
    if not len(position.gaps):
        return place
    return np.append(place, np.bincount(_mine(position), minlength=1))


def _mine(position: Position) -> Any:
    """The numbers of the samples that this peer is dealt."""
    rank, size = position.among
    return position.rest()[rank::size]


def _chosen(dataset: tf.data.Dataset, is_one: Any) -> tf.data.Dataset:
    """The elements that are marked by 1, of as many as there are marks."""
    numbered = tf.data.Dataset.zip(
        (dataset.take(tf.size(is_one, tf.int64)), tf.data.Dataset.from_tensor_slices(is_one))
    )
    chosen = numbered.filter(lambda element, is_one: is_one > 0)
    return chosen.map(lambda element, is_one: element)


def _when_begun(ask: Any) -> tf.data.Dataset:
    """A dataset of one element, which `ask` returns when a pass begins."""

    @tf.autograph.experimental.do_not_convert
    def answer(_: Any) -> Any:
        return tf.numpy_function(ask, [], tf.int64)

    return tf.data.Dataset.range(1).map(answer)


def _left_at_once(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset without autotuning, so that an iterator ends at once in the middle of a pass.

    The thread of autotuning sleeps for up to a minute, and is not always woken. TensorFlow (to
    2.21) takes that long to destroy an iterator.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _length(dataset: tf.data.Dataset) -> int:
    count = dataset.cardinality()
    if not tf.executing_eagerly():
        with tf.compat.v1.Session(graph=count.graph) as session:
            count = session.run(count)
    if int(count) < 0:
        raise ValueError(
            "data.shard: an epoch of a job that changes its size is one pass through its data, "
            "and the dataset's length is "
            f"{'infinite' if int(count) == tf.data.INFINITE_CARDINALITY else 'unknown'}: "
            "say it, by dataset.take(n) or tf.data.experimental.assert_cardinality(n)"
        )
    return int(count)


def _check_repeats(dataset: tf.data.Dataset) -> None:
    def beginning() -> list[bytes]:
        return [
            repr(np.asarray(part).tolist()).encode() if part.dtype == tf.string else _bytes(part)
            for element in dataset.take(_COMPARED)
            for part in tf.nest.flatten(element, expand_composites=True)
            if isinstance(part, tf.Tensor) and part.dtype not in (tf.variant, tf.resource)
        ]

    if beginning() != beginning():
        raise ValueError(
            "data.shard: the samples come in another order in each pass, so a pass cannot be "
            "continued in the middle. Shuffle by data.shard(dataset, shuffle=10_000, seed=...), "
            "which depends on the epoch only, or with reshuffle_each_iteration=False"
        )


_COMPARED = 4


def _bytes(part: Any) -> bytes:
    data: bytes = part.numpy().tobytes()
    return data
