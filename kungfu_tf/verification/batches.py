"""The batches of all peers as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.replicas.equality import digests_of


class Joint(NamedTuple):
    """What all peers train on in one step.

    Attributes:
        batch: Of one process, in rank order; None on other ranks than 0.
        samples: How many samples each peer has.
        is_known: Whether all peers have samples, and rank 0 a batch of them.
        twins: Two ranks that have many samples in common; None if there are none.
    """

    batch: Any
    samples: list[int]
    is_known: bool
    twins: tuple[int, int] | None


def gather(batch: Any) -> Joint:
    """Every peer calls it, with its batch: any nesting of tensors or arrays. Eager.

    Parts as long as the first one are put together along their first axis. All other parts are rank
    0's. None, or a part that is ragged or sparse: it has no batch.
    """
    leaves = tf.nest.flatten(batch)
    places = _places_of(leaves)
    rows = gather_any([leaves[i] for i in places], name="verify/batch")
    samples = [len(row[0]) if row else 0 for row in rows]
    is_known = all(samples) and len({len(row) for row in rows}) == 1
    joint = None
    if is_known and peer.is_root():
        for place, parts in zip(places, zip(*rows, strict=True), strict=True):
            leaves[place] = _like(leaves[place], np.concatenate(parts))
        joint = tf.nest.pack_sequence_as(batch, leaves)
    return Joint(joint, samples, _all(is_known), _twins(rows))


def _places_of(leaves: Sequence[Any]) -> list[int]:
    """Where the parts of the batch are; none, if a part cannot be put together."""
    if any(isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) for leaf in leaves):
        return []
    arrays = {
        i: leaf
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, (tf.Tensor, np.ndarray)) and len(leaf.shape)
    }
    lengths = [int(array.shape[0]) for array in arrays.values()]
    return [i for i, array in arrays.items() if int(array.shape[0]) == lengths[0]]


def _like(leaf: Any, array: Any) -> Any:
    return array if isinstance(leaf, np.ndarray) else tf.constant(array)


def _all(mine: bool) -> bool:
    return bool(ops.all_reduce(np.int32(mine), op="min", name="verify/can"))


def _twins(rows: list[list[Any]]) -> tuple[int, int] | None:
    """Two ranks of which one has at least half of its samples in common with the other.

    Within a batch all samples must differ. Else samples that are equal may be different ones.
    """
    known = [_digests_of_samples(row) for row in rows]
    for second, samples in enumerate(known):
        for first, others in enumerate(known[:second]):
            if samples and others and 2 * len(samples & others) >= min(len(samples), len(others)):
                return first, second
    return None


def _digests_of_samples(row: list[Any]) -> set[bytes]:
    """One for each sample; none, if some are equal."""
    count = len(row[0]) if row else 0
    found = {digests_of([part[i] for part in row]).tobytes() for i in range(count)}
    return found if len(found) == count else set()
