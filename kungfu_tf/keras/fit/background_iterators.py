"""Passes through a dataset that end at once.

tf.data tunes a pass on a thread that sleeps for 10 ms, then for 20, 40 and so on, up to a minute.
An iterator that is dropped waits for that thread, which it often fails to wake: an epoch of 12 s
may end 8 s late. Peers in step wait for whoever is late, so an iterator that is over is dropped on
a thread that nobody waits for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# So much later Keras has let go of an iterator, too: who does so last is the one that waits.
_LATER = 0.1  # seconds


class BackgroundIterators:
    """A dataset whose iterators, of which Keras uses one at a time, are dropped elsewhere.

    Args:
        dataset: Of Keras' epochs.
        instead: Asked at each pass what it goes through in place of the dataset: another one with
            the same elements, or None.
    """

    def __init__(
        self, dataset: Any, instead: Callable[[], tf.data.Dataset | None] = lambda: None
    ) -> None:
        self._dataset = dataset
        self._instead = instead
        self._current: Any = None
        self._in_turn = _caches_in_a_file(dataset)

    def __iter__(self) -> Iterator[Any]:
        self.close()
        instead = self._instead()
        iterator = iter(self._dataset if instead is None else instead)
        if not self._in_turn:
            self._current = iterator
        return iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def close(self) -> None:
        """Lets go of the last iterator. Another may follow."""
        over, self._current = [self._current], None
        if over[0] is not None:
            threading.Thread(target=_drop, args=(over,)).start()


def _drop(over: list[Any]) -> None:
    time.sleep(_LATER)
    over.clear()


def _caches_in_a_file(dataset: Any) -> bool:
    """Whether a pass may write a file, which two must not do at a time."""
    if not hasattr(dataset, "_inputs"):  # tf.distribute's
        return False
    file = getattr(dataset, "_filename", None) if type(dataset).__name__ == "CacheDataset" else None
    return bool(file is not None and file.numpy()) or any(map(_caches_in_a_file, dataset._inputs()))
