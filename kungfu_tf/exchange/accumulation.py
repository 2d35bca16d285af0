"""Gradients of several steps for one update, where an optimizer cannot add them up itself.

Optimizers of Keras 3 can: see `gradient_accumulation_steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.exchange.buckets import check_op


def check_steps(steps: Any) -> None:
    """Raises a ValueError unless it is a number of steps that make an update."""
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"a number of steps for each update, 1 or more, not {steps!r}")


class Accumulation:
    """The sum of this peer's gradients since the last update. It is never saved.

    Args:
        steps: How many steps make an update.
        op: "mean" or "sum" of the gradients of the steps.

    Raises:
        ValueError: If `steps` is less than 1, or there is no such `op`.
    """

    def __init__(self, steps: int, *, op: str = "mean") -> None:
        check_steps(steps)
        check_op(op)
        self._steps = steps
        self._op = op
        self._sums: dict[Any, Any] = {}
        self._with_gradients: set[Any] = set()
        with tf.init_scope():
            self._counter = _variable(tf.constant(0, tf.int64), "steps")

    @property
    def counter(self) -> Any:
        """The number of steps since the last update: a variable."""
        return self._counter

    def add(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Adds this peer's gradients of a step, of which sparse ones become dense."""
        # All at once: a function that is traced later, or traced again, must not create any.
        sums = [self._sum_of(variable) for variable in variables]
        for gradient, gathered, variable in zip(gradients, sums, variables, strict=True):
            if gradient is not None:
                self._with_gradients.add(variable.ref())
                gathered.assign_add(tf.convert_to_tensor(gradient))
        self._counter.assign_add(1)

    def then(self, update: Callable[[], Any], otherwise: Callable[[], Any]) -> None:
        """Calls `update` if there are the gradients of all steps, else `otherwise`."""

        def end() -> Any:
            update()
            self._counter.assign(0)
            for gathered in self._sums.values():
                gathered.assign(tf.zeros_like(gathered))
            return tf.constant(0)

        def go_on() -> Any:
            otherwise()
            return tf.constant(0)

        tf.cond(tf.equal(self._counter, self._steps), end, go_on)

    def gradients(self, variables: Sequence[Any]) -> list[Any]:
        """What the steps have added up, zeros where these steps had no gradient.

        It is None for a variable of which no step, of any update, has had one when it was traced.
        """
        return [
            self._result(self._sums[v.ref()]) if v.ref() in self._with_gradients else None
            for v in variables
        ]

    def _result(self, gathered: Any) -> Any:
        value = gathered.read_value()
        return value / tf.cast(self._steps, value.dtype) if self._op == "mean" else value

    def _sum_of(self, variable: Any) -> Any:
        if variable.ref() not in self._sums:
            with tf.init_scope():
                zeros = tf.zeros(variable.shape, variable.dtype)
                self._sums[variable.ref()] = _variable(zeros, "sum")
        return self._sums[variable.ref()]


def _variable(value: Any, name: str) -> Any:
    return tf.Variable(value, trainable=False, name=f"kungfu_accumulation/{name}")
