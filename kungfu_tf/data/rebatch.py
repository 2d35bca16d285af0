"""Batches whose size changes during a training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# Most batches that are usually read ahead. A peer that reads fewer ahead changes no earlier, so
# that runs are repeatable.
_AHEAD = 6


class Sizes:
    """The sizes of the batches of a pipeline. May be used by any thread.

    Args:
        first: The size of the first batches.
    """

    def __init__(self, first: int) -> None:
        self.newest = first
        self._lock = threading.Lock()
        self._changes = [(0, first)]  # pairs: a batch of the pass, and the size from there on
        self._begun = -1

    def begin(self, batch: int) -> int:
        """Begins to fill a batch. Returns its size. Batches of a pass count from 0."""
        with self._lock:
            if batch == 0:
                self._changes = [(0, self.newest)]
            self._begun = batch
        return self.of(batch)

    def begun_samples(self) -> int:
        """How many samples the batches that have begun in this pass hold when they are full."""
        with self._lock:
            begun = range(self._begun + 1)
            return sum(next(s for f, s in reversed(self._changes) if f <= batch) for batch in begun)

    def of(self, batch: int) -> int:
        """The size of a batch that has begun."""
        with self._lock:
            return next(size for first, size in reversed(self._changes) if first <= batch)

    def change(self, size: int, taken: int, newest_of_all: Callable[[int], int]) -> None:
        """Changes the size of batches that no peer has begun yet, however far each reads ahead.

        Args:
            size: The new size.
            taken: How many batches of the pass have been trained on.
            newest_of_all: Returns the largest of the numbers that the peers give.
        """
        with self._lock:  # so that this peer begins no batch meanwhile
            newest = newest_of_all(max(self._begun, taken + _AHEAD - 1))
            self._changes.append((newest + 1, size))
            self.newest = size


def rebatched(dataset: tf.data.Dataset, sizes: Sizes) -> tf.data.Dataset:
    """The same samples in the same order, in batches of other sizes.

    Args:
        dataset: A dataset of batches of dense tensors, whose samples have one shape.
        sizes: The sizes, for this dataset only.
    """

    def begin(batch: Any) -> Any:
        return tf.numpy_function(lambda n: np.int64(sizes.begin(int(n))), [batch], tf.int64)

    def number(state: Any, sample: Any) -> Any:
        batch, left = state
        batch = tf.where(tf.equal(left, 0), batch + 1, batch)
        left = tf.cond(tf.equal(left, 0), lambda: begin(batch), lambda: left)
        left = tf.ensure_shape(left, [])
        return (batch, left - 1), (batch, sample)

    def size(batch: Any) -> Any:
        found = tf.numpy_function(lambda n: np.int64(sizes.of(int(n))), [batch], tf.int64)
        return tf.ensure_shape(found, [])

    numbered = dataset.unbatch().scan((np.int64(-1), np.int64(0)), number)
    return numbered.group_by_window(
        key_func=lambda batch, sample: batch,
        reduce_func=lambda batch, window: window.batch(size(batch)).map(lambda _, samples: samples),
        window_size_func=size,
    )
