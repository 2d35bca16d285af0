"""Each process on its own, as `alone`, with an asynchronous kernel of TensorFlow's for an average.

A kernel that may wait is asynchronous. Behind it TensorFlow goes on by way of its queue of work,
which takes longer than to go on at once.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adapters.alone import averages, optimizer, rank, run, scope, size

__all__ = ["averages", "mean", "optimizer", "rank", "run", "scope", "size"]

_queue = tf.queue.FIFOQueue(1, [tf.float32])


def mean(tensors: list[Any], name: str) -> list[Any]:
    """Each as it is, behind the size of a queue."""
    with tf.control_dependencies([_queue.size()]):
        return [tf.identity(tensor) for tensor in tensors]
