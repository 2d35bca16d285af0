"""What is known of a dataset that was dealt out from a position.

A job that changes its size must know which samples a step has trained on. So a dataset remembers
how it was dealt out, and the datasets that are made from it are looked through.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from kungfu_tf.data.position import Position


@dataclasses.dataclass(frozen=True)
class Dealt:
    """The batches that each peer makes of its share.

    Attributes:
        position: The position from which the data are dealt.
        batch_size: The size of all batches, except perhaps the last.
        drops: Whether a smaller last batch is left out.
    """

    position: Position
    batch_size: int
    drops: bool = False

    def batches(self, rank: int, size: int) -> int:
        """How many batches a rank of `size` peers gets in the rest of the epoch."""
        samples = self.position.left(rank, size)
        return samples // self.batch_size if self.drops else -(-samples // self.batch_size)


# Datasets that keep the samples and their order.
_ORDERLY = {"AssertCardinality", "Map", "Options", "ParallelMap", "Prefetch"}
_BATCHING = {"Batch", "PaddedBatch", "ParallelBatch"}


def remember_dealt(dataset: tf.data.Dataset, dealt: Position | Dealt) -> tf.data.Dataset:
    """Returns the dataset, which remembers how it was dealt out: as samples, or as batches."""
    dataset._kungfu_dealt = dealt
    return dataset


def has_position(dataset: Any) -> bool:
    """Whether a dataset, or a dataset that it was made from, was dealt out from a position."""
    waiting = [dataset] if isinstance(dataset, tf.data.Dataset) else []
    while waiting:
        one = waiting.pop()
        if hasattr(one, "_kungfu_dealt"):
            return True
        waiting.extend(one._inputs())
    return False


def batches_of(dataset: Any) -> int | None:
    """The number of this peer's batches in the rest of an epoch; None if it is unknown."""
    if not has_position(dataset):
        return None
    try:
        dealt = dealt_of(dataset)
        return dealt.batches(*dealt.position.among)
    except ValueError:
        return None


def dealt_of(dataset: tf.data.Dataset) -> Dealt:
    """The batches of a dataset that `data.shard` has dealt out.

    Raises:
        ValueError: If it was not batched, or something else than map, batch and prefetch came after
            `data.shard`: then the samples of a step are unknown.
    """
    batch_size, drops = None, False
    one = dataset
    while not hasattr(one, "_kungfu_dealt"):
        kind = type(one).__name__.strip("_").removesuffix("Dataset")
        inputs = one._inputs()
        if len(inputs) != 1 or kind not in _ORDERLY | _BATCHING:
            raise ValueError(
                f"{kind} after data.shard: a job that changes its size must know which samples a "
                "step has trained on, so only map, batch and prefetch may come after it. Do the "
                "rest before; shuffle by data.shard(dataset, shuffle=...)"
            )
        if kind in _BATCHING:
            if batch_size is not None:
                raise ValueError("after data.shard batch once")
            batch_size, drops = _static(one._batch_size), bool(_static(one._drop_remainder))
        [one] = inputs
    if isinstance(one._kungfu_dealt, Dealt):
        return one._kungfu_dealt
    if batch_size is None:
        raise ValueError("deal samples, and batch them afterwards: data.shard(samples).batch(32)")
    return Dealt(one._kungfu_dealt, int(batch_size), drops)


def _static(value: Any) -> Any:
    found = tf.get_static_value(value)
    if found is None:
        raise ValueError("the batch size after data.shard must be known when the dataset is made")
    return found
