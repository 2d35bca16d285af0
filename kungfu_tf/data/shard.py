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
    """Returns this peer's part of a dataset. By default all peers' parts are equally long.

    Elements are dealt out like cards, in rounds: of `size` peers, rank r gets the elements
    r, r + size, r + 2·size, ... Only whole rounds are dealt, so that no peer has more batches than
    another. `remainder` says what happens to the rest.

    The elements may be samples or batches:

    - **Samples**: batch them afterwards, `shard(samples).batch(b)`. In step s all peers together
      train on the samples of step s of one process with batches of size·b. That includes the last,
      smaller batch: the peers' batches are equally large in every step.
    - **Batches**: each is dealt out whole. In step s all peers together train on `size` successive
      batches. `fit` and Estimators weigh each batch by its samples, since the last one may be
      smaller. In a loop of your own give their numbers to the tape (`data.even`,
      `DistributedGradientTape(samples=)`). Otherwise batches count alike.

    All peers must see the same elements in the same order. Shuffle afterwards, or before with a
    seed that all peers share, as `shuffle` does. (`fit` and `data.even` compare the first elements
    of the sources, and the seeds.) Every peer reads the whole dataset up to here, so shard early,
    before costly transformations.

    **With a position**, and in a job of `kungfu-run -w`, the elements are samples, and all of them
    are dealt out. Each pass through the result begins at the current position, with the current
    rank and size. The peers' last batches differ in size then, and a peer may have one batch less.
    `kungfu_tf.elastic.fit` and `data.even` handle that. Only map, batch and prefetch may come after
    it, and the dataset before it must be the same in each pass.

    Args:
        dataset: The same on every peer.
        remainder: The treatment of the last, incomplete round (up to size − 1 elements):
            "drop": no peer gets it. Rank 0 logs its length.
            "repeat": it is filled up from the dataset's start. Every element is dealt at least
            once, and up to size − 1 of them twice.
            "keep": it is dealt as it is, so some ranks get one element more than others. `fit` and
            Estimators handle that. A loop of your own needs `data.even`.
            With a position it has no effect.
        shuffle: The buffer to shuffle with first, as for `tf.data.Dataset.shuffle`. The order is
            another one in each pass (with a position: in each epoch), and the same on all peers.
        seed: The seed of that order.
        position: The position where each pass begins. Default: with `kungfu-run -w` a new one,
            which `kungfu_tf.elastic.fit` finds.

    Returns:
        The part; in a single process `dataset` itself.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
        ValueError: If a peer would get nothing; if `remainder` is not one of the three; if the
            dataset was shuffled without a seed. With a position, if the dataset's length is
            unknown, or another pass through it begins with other elements.

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
        # It completes an incomplete round. After a whole one, none of these elements is dealt.
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
