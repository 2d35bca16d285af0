"""Shards of a data set of TensorFlow 1, by variables that a program changes while it reads."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["BaseDatasetAdaptor", "ExampleDatasetAdaptor"]

_v1 = tf.compat.v1


class BaseDatasetAdaptor:
    """Reads this peer's batches from some sample on.

    The variables count when the iterator is initialised.

    Args:
        batch_size: Of one peer.
        shard_count: The number of peers.
        shard_id: This peer's rank.
    """

    def __init__(self, batch_size: int = 10, shard_count: int = 1, shard_id: int = 0) -> None:
        self._batch_size, self._shard_count, self._shard_id, self._offset = (
            _v1.Variable(value, dtype=tf.int64, trainable=False)
            for value in (batch_size, shard_count, shard_id, 0)
        )

    def create_update_offset(self) -> Any:
        """The operation after a step: all peers' batches have been read."""
        return _v1.assign_add(self._offset, self._batch_size * self._shard_count)

    def create_rewind(self) -> Any:
        """The operation that begins anew."""
        return _v1.assign(self._offset, 0)

    def create_update_topology(self) -> Any:
        """The operation after the peers have changed, of a subclass."""
        raise NotImplementedError("a subclass says how the shards change")

    def debug(self, sess: Any) -> None:
        """Prints the variables."""
        names = {
            "offset": self._offset,
            "np": self._shard_count,
            "rank": self._shard_id,
            "batch size": self._batch_size,
        }
        print(", ".join(f"{name}={value}" for name, value in sess.run(names).items()))

    def __call__(self, ds: Any) -> tuple[Any, Any]:
        """The iterator's initialiser, and its next batch."""
        ds = ds.skip(self._offset).batch(self._batch_size)
        ds = ds.shard(self._shard_count, self._shard_id)
        iterator = _v1.data.make_initializable_iterator(ds)
        return iterator.initializer, iterator.get_next()


class ExampleDatasetAdaptor(BaseDatasetAdaptor):
    """An example: one peer more, the next rank, and two samples more in a batch."""

    def create_update_topology(self) -> Any:
        """The operation after the peers have changed."""
        count = _v1.assign_add(self._shard_count, 1)
        with tf.control_dependencies([count]):
            rank = _v1.assign(self._shard_id, (self._shard_id + 1) % count)
        return tf.group(rank, _v1.assign_add(self._batch_size, 2))
