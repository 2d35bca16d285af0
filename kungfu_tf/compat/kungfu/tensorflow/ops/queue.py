"""Queues from one peer to another."""

from __future__ import annotations

from kungfu_tf import ops
from kungfu_tf.ops.queue import Queue


def new_queue(src: int, dst: int) -> Queue:
    """Makes one, with `put(x)` on rank `src` and `get(dtype, shape)` on rank `dst`."""
    return ops.new_queue(src, dst)
