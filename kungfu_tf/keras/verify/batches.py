"""The batches of all peers as one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.replicas.equality import digests_of


class Joint(NamedTuple):
    """What all peers train on in one step.

    Attributes:
        batch: Of one process, in rank order; None on other ranks than 0, and if it cannot be told.
        samples: How many samples each peer has.
        twins: Two ranks that have the same samples; None if there are none.
    """

    batch: Any
    samples: list[int]
    twins: tuple[int, int] | None


def gather(batch: Any) -> Joint:
    """Every peer calls it, with its batch; None: it has none. Eager."""
    parts = [part for part in tf.nest.flatten(batch) if part is not None]
    if not all(isinstance(part, tf.Tensor) and part.shape.rank for part in parts):
        parts = []
    rows = gather_any(parts, name="verify/batch")
    samples = [len(row[0]) if row else 0 for row in rows]
    full = [row for row in rows if row and len(row[0])]
    if not parts or len({len(row) for row in full}) > 1:
        return Joint(None, samples, _twins(rows))
    joint = iter([tf.constant(np.concatenate(part)) for part in zip(*full, strict=True)])
    whole = tf.nest.map_structure(lambda part: None if part is None else next(joint), batch)
    return Joint(whole, samples, _twins(rows))


def _twins(rows: list[list[Any]]) -> tuple[int, int] | None:
    seen: dict[bytes, int] = {}
    for rank, row in enumerate(rows):
        if row and len(row[0]):
            digest = digests_of(row).tobytes()
            if digest in seen:
                return seen[digest], rank
            seen[digest] = rank
    return None
