"""Operations that remember. They begin with each session, and nothing initialises them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_numbers = itertools.count()


def counter(init: int | None = None, incr: int | None = None, debug: bool = False) -> Any:
    """Counts how often it runs, as int32.

    In a graph each call counts separately. In eager code nothing else tells one from another than
    the arguments.
    """
    del debug  # KungFu's: it prints each number
    return counted(init or 0, 1 if incr is None else incr)


def counted(init: int, incr: int, key: str = "") -> Any:
    """Counts, in eager code for each key separately."""
    name = f"counter/{init}/{incr}/{key}"
    return _remembered(name, tf.constant(init, tf.int32), lambda last: last + incr)


def exponential_moving_average(x: Any, alpha: float = 0.9) -> Any:
    """Returns the moving average of its inputs, which begins with the first one.

    ```
    y ← x                       the first time
    y ← α·y + (1 − α)·x         afterwards
    ```
    """
    x = tf.convert_to_tensor(x)
    return _remembered(f"average/{alpha}", x, lambda last: alpha * last + (1 - alpha) * x)


def _remembered(name: str, first: Any, following: Callable[[Any], Any]) -> Any:
    """A value that each run computes out of the one of the run before, in the same session."""
    if not tf.executing_eagerly():
        name = f"{name}/{next(_numbers)}"
    with tf.device("CPU:0"):
        place = tf.raw_ops.VarHandleOp(
            dtype=first.dtype, shape=first.shape, shared_name=f"kungfu/remembered/{name}"
        )
        value = tf.cond(
            tf.raw_ops.VarIsInitializedOp(resource=place),
            lambda: following(tf.raw_ops.ReadVariableOp(resource=place, dtype=first.dtype)),
            lambda: tf.identity(first),
        )
        # The memory of a variable of TensorFlow 1 may change under it.
        value = tf.raw_ops.DeepCopy(x=value)
        kept = tf.raw_ops.AssignVariableOp(resource=place, value=value)
        with tf.control_dependencies([] if kept is None else [kept]):
            return tf.identity(value)
