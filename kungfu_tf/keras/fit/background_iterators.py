"""Iterators of a dataset that are dropped in the background, because dropping them may take long.

tf.data tunes an iterator on a thread that sleeps for 10 ms, then for 20, 40 and so on, up to a
minute. An iterator that is dropped waits for that thread, and often fails to wake it: an epoch of
12 s may end 8 s late. All peers wait for the latest one. So an iterator that has ended is dropped
on a thread of its own, when nothing else holds it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# How often to look whether Keras has let go of an iterator, in seconds: at first, and in the end.
_FIRST_LOOK, _LONGEST = 0.01, 1.0


class BackgroundIterators:
    """A dataset whose iterators, of which Keras uses one at a time, are dropped in the background.

    Args:
        dataset: The dataset that Keras goes through in each epoch.
        instead: Called at the beginning of a pass. Returns a dataset with the same elements to go
            through in place of `dataset`, or None.
    """

    def __init__(
        self, dataset: Any, instead: Callable[[], tf.data.Dataset | None] = lambda: None
    ) -> None:
        self._dataset = dataset
        self._instead = instead
        self._current: Any = None
        self._drops_at_once = _caches_in_a_file(dataset)

    def __iter__(self) -> Iterator[Any]:
        self.close()
        instead = self._instead()
        iterator = iter(self._dataset if instead is None else instead)
        if not self._drops_at_once:
            self._current = iterator
        return iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def close(self) -> None:
        """Drops the last iterator. Another may follow."""
        over, self._current = [self._current], None
        if over[0] is not None:
            threading.Thread(target=_drop, args=(over,)).start()


def _drop(over: list[Any]) -> None:
    """Drops an iterator once nothing else holds it, because the last holder is the one that waits.

    Keras holds the iterator of an epoch until the first batch of the next one is there. If
    something holds it for ever, this thread ends with the main thread.
    """
    wait = _FIRST_LOOK
    while _is_held_elsewhere(over) and threading.main_thread().is_alive():
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST)
    over.clear()


def _is_held_elsewhere(over: list[Any]) -> bool:
    return sys.getrefcount(over[0]) > 2  # the list, and the argument


def _caches_in_a_file(dataset: Any) -> bool:
    """Whether a pass may write a file, which two passes must not do at the same time."""
    if not hasattr(dataset, "_inputs"):  # tf.distribute's
        return False
    file = getattr(dataset, "_filename", None) if type(dataset).__name__ == "CacheDataset" else None
    return bool(file is not None and file.numpy()) or any(map(_caches_in_a_file, dataset._inputs()))
