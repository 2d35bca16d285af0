"""Synchronous model averaging: each peer's model is drawn towards the average of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.number_of_peers import number_of_peers
from kungfu_tf.exchange.own_gradients import OwnGradients
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import sample_weights

Optimizer = TypeVar("Optimizer")


class SynchronousAveraging(OwnGradients):
    """v ← (1−α)·v + α·center, then the local gradient. See `SynchronousAveragingOptimizer`."""

    def __init__(self, alpha: float, momentum: float = 0.0) -> None:
        self.alpha = alpha
        self.momentum = momentum
        self._centers: dict[Any, _Center] = {}

    def before_training(self) -> None:
        """Makes the central model start again as the average of the models."""
        for center in self._centers.values():
            center.restart()

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Moves the variables towards the center."""
        if peer.is_single_process():
            return []
        if not self.momentum:
            return assign(variables, self.drawn_to_the_mean(variables))
        values = [v.read_value() for v in variables]
        means = self._means(values, variables)
        pull = self.alpha * tf.cast(number_of_peers(means, name=f"{self.name}/peers"), tf.float64)
        center, move_on = self._center_of(variables).of_step(means)
        with tf.control_dependencies([pull]):  # models and center move both, or none
            drawn = assign(variables, self._towards(values, center))
            return [*drawn, *move_on(pull, self.momentum)]

    def drawn_to_the_mean(self, variables: Sequence[Any]) -> list[Any]:
        """The new values of the variables without a central model."""
        values = [v.read_value() for v in variables]
        return self._towards(values, self._means(values, variables))

    def _means(self, values: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        with sample_weights.unweighted():
            return mean_gradients(values, variables, name=f"{self.name}/model")

    def _towards(self, values: Sequence[Any], centers: Sequence[Any]) -> list[Any]:
        pairs = zip(values, centers, strict=True)
        return [(1 - self.alpha) * v + self.alpha * center for v, center in pairs]

    def _center_of(self, variables: Sequence[Any]) -> _Center:
        key = tuple(v.ref() for v in variables)
        if key not in self._centers:
            self._centers[key] = _Center(variables)
        return self._centers[key]


class _Center:
    """The central model, the same on all peers, and the previous one."""

    def __init__(self, variables: Sequence[Any]) -> None:
        with tf.init_scope():
            self._started = tf.Variable(False, trainable=False, name="kungfu_started")
            self._now = [_zeros_like(v) for v in variables]
            self._before = [_zeros_like(v) for v in variables]

    def restart(self) -> None:
        """Makes it the average of the models in the next step."""
        self._started.assign(False)

    def of_step(self, means: Sequence[Any]) -> tuple[list[Any], Any]:
        """The central model in this step, and a function that moves it on."""
        started = self._started.read_value()
        now = [tf.where(started, z, m) for z, m in zip(self._now, means, strict=True)]
        last = [tf.where(started, z, m) for z, m in zip(self._before, means, strict=True)]

        def move(pull: Any, momentum: float) -> list[Any]:
            next_center = [
                z + tf.cast(pull, z.dtype) * (mean - z) + momentum * (z - z_before)
                for z, z_before, mean in zip(now, last, means, strict=True)
            ]
            return [
                *assign([*self._before, *self._now], [*now, *next_center]),
                *assign([self._started], [tf.logical_or(started, True)]),
            ]

        return now, move


def _zeros_like(variable: Any) -> tf.Variable:
    zeros = tf.zeros(variable.shape, variable.dtype.base_dtype)
    return tf.Variable(zeros, trainable=False, name="kungfu_center")


def check_factor(name: str, value: float, *, includes_zero: bool) -> None:
    """Raises unless it is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number, not {value!r}")
    if not (0 <= value <= 1 and (value > 0 or includes_zero)):
        raise ValueError(f"{name} lies between 0 and 1, not at {value}")


def SynchronousAveragingOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer,
    *,
    alpha: float = 0.1,
    momentum: float = 0.0,
    group: Group | None = None,
) -> Optimizer:
    """Makes each peer train a model of its own, drawn towards the average of all (SMA).

    ```
    c ← mean over peers of v
    v ← (1 − alpha)·v + alpha·c
    v ← update(v, g)                # g: of this peer's batch, at the v before averaging
    ```

    So small batches and a large learning rate work with any number of peers. With `momentum` the
    center is a model of its own, as in the paper:

    ```
    v ← (1 − alpha)·v + alpha·z
    z ← z + alpha·size·(c − z) + momentum·(z − z of the step before)
    ```

    It starts as the average of the models; alpha·size should not exceed 1. It is not saved: a
    resumed training, or another `fit`, starts from the average again. In a training loop of your
    own, all peers must call `optimizer.kungfu_algorithm.before_training()` when the peers have
    changed: newcomers do not know the center.

    The peers' models differ: evaluate and save their average, which `average_variables` computes.
    `fit` does so by itself, and leaves the average in the model. In `fit` peers may have different
    numbers of batches: a peer that has run out continues averaging, with zero gradients. Each peer
    keeps its own optimizer state.

    Source: Koliousis et al., "CROSSBOW: Scaling Deep Learning with Small Batch Sizes on Multi-GPU
    Servers", VLDB 2019; the first form is KungFu's (Mai et al., OSDI 2020).

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        alpha: How far each step draws a model towards the center, 0 to 1; 1 makes all equal.
        momentum: The momentum of the central model, from 0 to 1. At 0 the center is just the
            average.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or a number is not a number.
        ValueError: If it is wrapped already, or a number is out of range.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousAveragingOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_factor("alpha", alpha, includes_zero=False)
    check_factor("momentum", momentum, includes_zero=True)
    return wrap(optimizer, lambda: SynchronousAveraging(alpha, momentum), group=group)
