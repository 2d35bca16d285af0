"""Dealing out the elements of a `tf.data` pipeline."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data import order
from kungfu_tf.data.empty import check_dataset
from kungfu_tf.data.position import Position
from kungfu_tf.data.shares import share_of_dataset
from kungfu_tf.upstream import activation, generations

_log = logging.getLogger(__name__)


def shard(
    dataset: tf.data.Dataset,
    *,
    remainder: str = "drop",
    shuffle: int | None = None,
    seed: int = 0,
    position: Position | None = None,
) -> tf.data.Dataset:
    """Returns this peer's part of a dataset, as long as every other peer's unless told otherwise.

    Elements are dealt out like cards, in rounds: of `size` peers, rank r gets the elements
    r, r + size, r + 2·size, ... Only whole rounds are dealt, so that no peer has a batch more than
    the others; `remainder` says what happens to the rest.

    An element is a batch or a sample, as the dataset has it:

    - **Samples**: batch afterwards, `shard(samples).batch(b)`. Step s of all peers together trains
      on the samples that step s of one process with batches of size·b has, the last, smaller batch
      included: the peers' batches are equally large in every step.
    - **Batches**: each is dealt out whole, so step s of all peers together trains on `size`
      successive batches. `fit` and Estimators weigh each by its samples, should the last one be
      smaller. A loop of your own says how many they are (`data.even`,
      `DistributedGradientTape(samples=)`): otherwise the batches weigh alike.

    All peers must see the same elements in the same order. Shuffle afterwards, or before with a
    seed that all peers share, as `shuffle` does. (`fit` and `data.even` compare what the order
    comes from: the first elements of the sources, and seeds.) Every peer reads the whole dataset up
    to here, so shard early, before costly transformations.

    **With a position**, and in a job that changes its size (`kungfu-run -w`), the elements are
    samples, and all of them are dealt out: each pass through the result begins at the current
    position, with the current rank and size. The peers' last batches differ in size then, and one
    peer may have a batch less: `kungfu_tf.elastic.fit` and `data.even` know. Only map, batch and
    prefetch may come after it, and the dataset before it must be the same in each pass.

    Args:
        dataset: The same on every peer.
        remainder: The treatment of the last, incomplete round (up to size − 1 elements):
            "drop": no peer gets it; rank 0 logs its length.
            "repeat": it is filled up from the dataset's start. Every element is dealt at least
            once, and up to size − 1 of them twice.
            "keep": it is dealt as it is, so some ranks get one element more than others. `fit` and
            Estimators make up for that; a loop of your own needs `data.even`.
            A position makes it void.
        shuffle: The buffer to shuffle with first, as for `tf.data.Dataset.shuffle`: in another
            order in each pass, with a position in each epoch, and the same on all peers.
        seed: Of that order.
        position: Where to begin. Default: with `kungfu-run -w` one of its own, which
            `kungfu_tf.elastic.fit` finds.

    Returns:
        The part; of a process that is alone `dataset` itself.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
        ValueError: If there would be nothing for a peer to train on, or `remainder` is none of the
            three; if the dataset was shuffled without a seed. With a position, if the dataset's
            length is not known, or another pass through it begins otherwise.

    Example:

    ```python
    samples = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = kf.data.shard(samples).shuffle(10_000).batch(32)
    ```
    """
    check_dataset(dataset)
    if remainder not in ("drop", "repeat", "keep"):
        raise ValueError(f"remainder is 'drop', 'repeat' or 'keep', not {remainder!r}")
    if not peer.is_single_process():
        order.check_repeats_on_all(dataset)
    if position is not None or (peer.launched() and peer.elastic()):
        share = share_of_dataset(dataset, position or Position(), shuffle, seed)
        return order.remember_order(share, dataset)
    if shuffle:
        dataset = dataset.shuffle(shuffle, seed=seed)
    if peer.is_single_process():
        return dataset
    if generations.packages():
        activation.use(activation.KERAS)  # so that fit warns of an optimizer that is not wrapped
    return order.remember_order(deal(dataset, peer.rank(), peer.size(), remainder), dataset)


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
    if 0 <= count < size:
        raise ValueError(
            f"{count} elements are too few for {size} peers: remainder='keep' gives some peers none"
        )
    if rank == 0 and remainder == "drop":
        _log_dropped(count, size)
    if count == tf.data.UNKNOWN_CARDINALITY:
        return _from_whole_rounds(dataset, rank, size)
    return dataset.take(count - count % size).shard(size, rank)


def _count(dataset: tf.data.Dataset) -> int:
    count = tf.get_static_value(dataset.cardinality())  # None while a TF1 graph is built
    return tf.data.UNKNOWN_CARDINALITY if count is None else int(count)


def _from_whole_rounds(dataset: tf.data.Dataset, rank: int, size: int) -> tf.data.Dataset:
    """Element `rank` of every `size` elements. An element may be a nested structure."""

    def mine(*window: Any) -> tf.data.Dataset:
        whole = window if isinstance(dataset.element_spec, tuple) else window[0]
        return tf.data.Dataset.zip(whole).skip(rank).take(1)

    return dataset.window(size, drop_remainder=True).flat_map(mine)


def _log_dropped(count: int, size: int) -> None:
    if count == tf.data.UNKNOWN_CARDINALITY:
        _log.warning(
            "data.shard: the dataset's length is unknown; if it is not a multiple of %d, no peer "
            "uses the last %s of a pass",
            size,
            "element" if size == 2 else f"elements, up to {size - 1},",
        )
    elif count % size:
        _log.warning(
            "data.shard: the last %d of %d elements are used by no peer: %d peers get %d each",
            count % size,
            count,
            size,
            count // size,
        )
