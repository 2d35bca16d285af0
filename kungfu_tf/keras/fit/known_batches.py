"""What is known of the batches that a data adapter of Keras makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from kungfu_tf.data.dealt import batches_of


@dataclasses.dataclass(frozen=True)
class KnownBatches:
    """What is known of the batches of one epoch. What is not known is None.

    Attributes:
        cardinality: The number of batches.
        batch_size: The number of samples of each. The last one may have fewer.
        samples: The number of samples of all batches.
    """

    cardinality: int | None = None
    batch_size: int | None = None
    samples: int | None = None

    @classmethod
    def of(cls, adapter: Any, x: Any) -> KnownBatches:
        """What the adapter knows of its batches, or `data.shard`, if it has dealt out `x`."""
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
        """One epoch of a dataset, which in Keras 2 may hold all epochs."""
        return dataset if self.cardinality is None else dataset.take(self.cardinality)


def _asked(adapter: Any, *names: str) -> Any:
    """The answer of an adapter. Keras 3 and Keras 2 have different names for it."""
    answer = next(getattr(adapter, name) for name in names if hasattr(adapter, name))
    return answer() if callable(answer) else answer
