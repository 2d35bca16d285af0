"""Queues from one peer to another."""

from __future__ import annotations

from typing import Any

from kungfu_tf import ops


def new_queue(src: int, dst: int) -> Any:
    """Makes one, with `put(x)` on rank `src` and `get(dtype, shape)` on rank `dst`."""
    return ops.new_queue(src, dst)
