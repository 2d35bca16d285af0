"""Do all peers train on the same data? Then the first batch is the same on all of them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.upstream.warn import warn

_SHOWN = 100  # samples


class FirstBatch:
    """A digest of this peer's first batch, once that is known.

    Args:
        x: The data that the program gave. The beginning of an array counts as the first batch,
            because each peer may shuffle it in its own way.
    """

    def __init__(self, x: Any) -> None:
        is_array = isinstance(x, np.ndarray) and len(x) > 0
        self._digests = [_digest(x[:_SHOWN])] if is_array else []

    def watched(self, dataset: tf.data.Dataset) -> tf.data.Dataset | None:
        """The dataset, which notes its first batch; None if that is known.

        It calls a function for each batch, which slows down steps of milliseconds. So it is used
        for one pass only. (Keras 2 begins another pass before, and does not go through it.)
        """
        return None if self._digests else _watched(dataset, self._digests)

    def warn_if_all_have_the_same(self) -> None:
        """Warns if all peers have the same first batch. All call it, after they have read one."""
        if peer.size() == 1:
            return
        unknown = -1 - peer.rank()  # no digest is negative
        digest = np.int64(self._digests[0] if self._digests else unknown)
        if bool(ops.consensus(digest, name="fit/first_batch")) and peer.is_root():
            warn(
                f"the first batch is the same on all {peer.size()} peers: they seem to train on "
                "the same data. Give each its part, with kungfu_tf.data.shard(dataset), or of "
                "arrays x[kungfu_tf.rank() :: kungfu_tf.size()]"
            )


def _digest(array: Any, before: int = 0) -> int:
    data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return zlib.crc32(data, before)


def _watched(dataset: tf.data.Dataset, digests: list[int]) -> tf.data.Dataset:
    """The dataset, which appends the digest of its first batch to `digests`."""

    def note(*tensors: Any) -> np.int64:
        digest = 0
        for tensor in tensors:
            digest = _digest(tensor, digest)
        digests.append(digest)
        return np.int64(digest)

    def look(number: Any, batch: Any) -> Any:
        parts = tf.nest.flatten(batch, expand_composites=True)
        parts = [t for t in parts if isinstance(t, tf.Tensor) and t.dtype != tf.variant]

        def first() -> Any:
            return tf.numpy_function(note, parts, tf.int64)

        if parts:
            tf.cond(tf.equal(number, 0), first, lambda: tf.constant(0, tf.int64))
        return batch

    return dataset.enumerate().map(look)
