"""The collectives that move rows. They also return how many rows came from each rank."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.ops import kernels


def all_gather(x: Any, *, concat: bool, tag: str, agree: Any = None) -> tuple[Any, Any]:
    """The tensors of all peers, stacked or concatenated.

    Args:
        x: A tensor.
        concat: Whether to join them along their first axis.
        tag: The name by which peers match it.
        agree: An int64 vector that must be the same on all peers.
    """
    agreed = _no_numbers() if agree is None else agree
    return kernels.run("kungfu_all_gather", x, agreed, concat=concat, tag=tag)


def gather(x: Any, *, root: int, concat: bool, tag: str) -> tuple[Any, Any]:
    """`all_gather` for the root alone; the others get no rows."""
    return kernels.run("kungfu_gather", x, _no_numbers(), root=root, concat=concat, tag=tag)


def all_to_all(x: Any, splits: Any, *, tag: str) -> tuple[Any, Any]:
    """Sends splits[r] rows to each rank r, or even parts if `splits` is None."""
    sent = _no_numbers() if splits is None else tf.cast(splits, tf.int64)
    return kernels.run("kungfu_all_to_all", x, sent, tag=tag)


def _no_numbers() -> Any:
    return tf.constant([], dtype=tf.int64)
