"""Model averaging first, synchronous SGD afterwards."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.assignments import assign_when, chosen_gradients
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.optimizers.sync_sgd import SynchronousSGD
from kungfu_tf.optimizers.synchronous_averaging import SynchronousAveraging, check_factor
from kungfu_tf.optimizers.update_number import UpdateNumber
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")


class AdaptiveSGD(Algorithm):
    """SMA up to a step, S-SGD from it on. See `AdaptiveSGDOptimizer`."""

    def __init__(self, change_step: int, alpha: float) -> None:
        self.change_step = change_step
        self._first = SynchronousAveraging(alpha)
        self._then = SynchronousSGD()
        self._step: Any = None
        self._number = UpdateNumber("adaptive_sgd/step")

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns this peer's own, or the means."""
        self._set_up_parts()
        is_averaging = self._averages(self._number.now(step))
        first, then = (functools.partial(p.gradients, step=step) for p in (self._first, self._then))
        return chosen_gradients(is_averaging, gradients, variables, first, then)

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Averages the models, in the first part."""
        if peer.is_single_process():
            return []
        self._set_up_parts()
        self._step = self._number.now(self.optimizer_step())
        return assign_when(
            self._averages(self._step),
            variables,
            lambda: self._first.drawn_to_the_mean(variables),
        )

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Makes all peers equal when the first part ends, the optimizer's variables included."""
        if peer.is_single_process():
            return []
        shared = [*variables, *map(generations.native, self.optimizer_variables())]

        def from_root() -> list[Any]:
            values = [v.read_value() for v in shared]
            return ops.group_broadcast(values, name=f"{self.name}/switch")

        is_last = tf.equal(self._step, self.change_step - 1)
        ended = self._number.end_update(self.optimizer_step())
        return [*assign_when(is_last, shared, from_root), *ended]

    def _averages(self, step: Any) -> Any:
        return tf.less(step, self.change_step)

    def _set_up_parts(self) -> None:
        """Gives them this object's ordinal, and thus its name, and the traits of its optimizer."""
        for part in (self._first, self._then):
            vars(part).update(ordinal=self.ordinal, _sums_rows=self.sums_rows)


def AdaptiveSGDOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer, change_step: int, *, alpha: float = 0.1, group: Group | None = None
) -> Optimizer:
    """Makes an optimizer average models at first, and gradients from some step on.

    ```
    steps 0 .. change_step − 1:   SynchronousAveragingOptimizer(alpha)
    then, once:                   all peers get rank 0's model and optimizer state
    steps change_step ..:         SynchronousSGDOptimizer
    ```

    Averaging models explores with small batches while gradients are large; mean gradients then
    finish with less noise. The step is the optimizer's own or, for an optimizer of
    `tf.compat.v1.train`, the global step of the graph. Without one the optimizer counts its steps
    in a global variable. So a resumed training continues where it was.

    `fit` handles uneven data as each of the two parts does.

    Source: KungFu (Mai et al., OSDI 2020).

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        change_step: The first step of synchronous SGD.
        alpha: As for `SynchronousAveragingOptimizer`.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or a number is not a number.
        ValueError: If it is wrapped already, or a number is out of range.

    Example:

    ```python
    optimizer = kf.optimizers.AdaptiveSGDOptimizer(keras.optimizers.SGD(0.1), change_step=1000)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_factor("alpha", alpha, includes_zero=False)
    if isinstance(change_step, bool) or not isinstance(change_step, int):
        raise TypeError(f"change_step is a number of steps, not {change_step!r}")
    if change_step < 0:
        raise ValueError(f"change_step must not be negative, as {change_step} is")
    return wrap(optimizer, lambda: AdaptiveSGD(change_step, alpha), group=group)
