"""A learning rate, or a schedule of one, for as many peers as there are."""

from __future__ import annotations

import copy
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.keras.callbacks.learning_rate import number
from kungfu_tf.ops import topology
from kungfu_tf.upstream import generations


def scale_learning_rate(lr: Any, *, warmup_steps: int = 0) -> Any:
    """The learning rate of one process, or its schedule, for all peers: `size` times as much.

    ```
    rate(step) = lr(step) · (1 + (size − 1) · min(step / warmup_steps, 1))
    ```

    With N peers a batch is N times as large, and takes N times the learning rate (linear scaling).
    A schedule stays one of its class. A saved model opens without kungfu_tf, and has the schedule
    as it was given: so scale it again after loading. Steps are those of the job: an epoch has N
    times fewer than on one process.

    In a process that is alone the rate is as it was. Where peers come and go, a schedule follows
    their number, on all peers from the same step on. If lost peers are survived, and no others
    come, N stays that of the job's start.

    Args:
        lr: A number, or a `LearningRateSchedule` of Keras 3, Keras 2 or tf-keras.
        warmup_steps: Steps of the optimizer in which the rate grows from the one of a single
            process. A number becomes a schedule by it, of `tf.keras`. 0: it is scaled from the
            start. For a warm-up of a rate that callbacks can change see
            `LearningRateWarmupCallback`.

    Returns:
        A number for a number; for a schedule, or with `warmup_steps`, a schedule.

    Raises:
        TypeError: If `lr` is neither.
        ValueError: If it is a schedule that has been scaled already, or a number that is no rate,
            or `warmup_steps` is negative.

    References:
        - Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, 2017
          (arXiv:1706.02677), sections 2.1 and 2.2

    Example:

    ```python
    schedule = keras.optimizers.schedules.CosineDecay(0.1, decay_steps=10_000 // kf.size())
    rate = kf.callbacks.scale_learning_rate(schedule, warmup_steps=500)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(rate))
    ```
    """
    if not isinstance(warmup_steps, int) or warmup_steps < 0:
        raise ValueError(
            f"scale_learning_rate: warmup_steps must be a number of steps, not {warmup_steps!r}"
        )
    if any(
        isinstance(lr, package.module.optimizers.schedules.LearningRateSchedule)
        for package in generations.packages()
    ):
        return _scaled(lr, warmup_steps)
    rate = number("scale_learning_rate: lr, if it is no LearningRateSchedule,", lr)
    if not warmup_steps:
        return rate * peer.agreed_size()
    return tf.keras.optimizers.schedules.PolynomialDecay(
        rate, warmup_steps, end_learning_rate=rate * peer.agreed_size(), power=1.0
    )


def _scaled(schedule: Any, warmup_steps: int) -> Any:
    if isinstance(schedule, _Scaled):
        raise ValueError(f"scale_learning_rate: this {type(schedule).__name__} is scaled already")
    scaled = copy.copy(schedule)
    cls = generations.subclass(_Scaled, type(schedule), kungfu_warmup_steps=warmup_steps)
    object.__setattr__(scaled, "__class__", cls)
    return scaled


class _Scaled(generations.Base):
    """Mixed into the class of a schedule, before the user's class."""

    kungfu_warmup_steps: int

    def __call__(self, step: Any) -> Any:
        """Keras' method, times a factor that is computed in the graph: a resize changes it."""
        rate = tf.convert_to_tensor(super().__call__(step))
        if peer.pretends_alone() or not peer.launched():
            return rate
        peers = topology.agreed_size() if peer.elastic() else peer.agreed_size()
        factor = tf.cast(peers, rate.dtype)
        if self.kungfu_warmup_steps:
            done = tf.cast(step, rate.dtype) / self.kungfu_warmup_steps
            factor = 1 + (factor - 1) * tf.minimum(done, 1)
        return rate * factor
