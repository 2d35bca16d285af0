"""The collectives that move rows. They also return how many rows came from each rank."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.ops import kernels, topology


def all_gather(
    x: Any, *, concat: bool, tag: str, agree: Any = None, **attributes: Any
) -> tuple[Any, Any]:
    """The tensors of all peers, stacked or concatenated.

    Args:
        x: A tensor.
        concat: Whether to join them along their first axis.
        tag: The name by which peers match it.
        agree: An int64 vector that must be the same on all peers.
        **attributes: Other attributes of the operation.
    """
    agreed = _no_numbers() if agree is None else agree
    return kernels.run("kungfu_all_gather", x, agreed, concat=concat, tag=tag, **attributes)


def gather(x: Any, *, root: int, concat: bool, tag: str) -> tuple[Any, Any]:
    """`all_gather` for the root alone; the others get no rows."""
    return kernels.run("kungfu_gather", x, _no_numbers(), root=root, concat=concat, tag=tag)


def all_to_all(x: Any, splits: Any, *, tag: str, **attributes: Any) -> tuple[Any, Any]:
    """Sends splits[r] rows to each rank r, or even parts if `splits` is None.

    Args:
        x: A tensor.
        splits: Integers, as many as there are peers, or None.
        tag: The name by which peers match it.
        **attributes: Other attributes of the operation.
    """
    sent = _no_numbers() if splits is None else tf.cast(splits, tf.int64)
    if x.shape.rank and 0 in x.shape[1:].as_list():
        sent = _even_parts(x) if splits is None else sent
        return _without_elements(x, sent, tag=tag, **attributes)
    return kernels.run("kungfu_all_to_all", x, sent, tag=tag, **attributes)


def _without_elements(x: Any, sent: Any, **attributes: Any) -> tuple[Any, Any]:
    """Rows without elements: only their numbers travel."""
    check = tf.debugging.assert_equal(
        tf.reduce_sum(sent), tf.shape(x, tf.int64)[0], "the splits do not add up to all rows"
    )
    with tf.control_dependencies([] if check is None else [check]):
        one_each = tf.ones_like(sent)
    numbers, _ = kernels.run("kungfu_all_to_all", sent, one_each, **attributes)
    shape = tf.concat([[tf.reduce_sum(numbers)], tf.shape(x, tf.int64)[1:]], axis=0)
    return tf.zeros(shape, x.dtype), numbers


def _even_parts(x: Any) -> Any:
    """How many rows each rank gets, as `numpy.array_split` cuts them."""
    count, size = tf.shape(x, tf.int64)[0], tf.cast(topology.cluster_size(), tf.int64)
    return count // size + tf.cast(tf.range(size) < count % size, tf.int64)


def _no_numbers() -> Any:
    return tf.constant([], dtype=tf.int64)
