"""The known properties of the batches that a data adapter of Keras makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from kungfu_tf.data.dealt import batches_of


@dataclasses.dataclass(frozen=True)
class KnownBatches:
    """The batches of one epoch; None: unknown.

    Attributes:
        cardinality: How many there are.
        batch_size: How many samples each has; the last one may have fewer.
        samples: How many samples all have together.
    """

    cardinality: int | None = None
    batch_size: int | None = None
    samples: int | None = None

    @classmethod
    def of(cls, adapter: Any, x: Any) -> KnownBatches:
        """Those that an adapter knows; or those of its data `x`, if `data.shard` has dealt them."""
        if (dealt := batches_of(x)) is not None:
            return cls(dealt)
        batches, size = _asked(adapter, "num_batches", "get_size"), _asked(adapter, "batch_size")
        batches, size = (None if v is None else int(v) for v in (batches, size))
        if not batches or not size:
            return cls(batches, size, 0 if batches == 0 else None)
        is_partial = _asked(adapter, "has_partial_batch")
        last = int(_asked(adapter, "partial_batch_size")) if is_partial else size
        return cls(batches, size, (batches - 1) * size + last)

    def once(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """One epoch of a dataset, into which Keras 2 may have put all of them."""
        return dataset if self.cardinality is None else dataset.take(self.cardinality)


def _asked(adapter: Any, *names: str) -> Any:
    """The answer of an adapter of Keras 3 or 2, which has another name for it."""
    answer = next(getattr(adapter, name) for name in names if hasattr(adapter, name))
    return answer() if callable(answer) else answer
