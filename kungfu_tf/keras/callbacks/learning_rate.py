"""The common part of the callbacks that set a learning rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kungfu_tf import context
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback

_INSTEAD = "kungfu_tf.callbacks.scale_learning_rate(..., warmup_steps=...)"


class LearningRateCallback(Callback):
    """Sets the rate of the optimizer that trains the model, and logs it as Keras does.

    Args:
        initial_lr: The rate that is multiplied.
        steps_per_epoch: The number of batches of an epoch; None: the number that `fit` knows.
    """

    def __init__(self, initial_lr: float, *, steps_per_epoch: int | None = None) -> None:
        super().__init__()
        self.initial_lr = number(f"{type(self).__name__}: initial_lr", initial_lr)
        if steps_per_epoch is not None and steps_per_epoch < 1:
            raise ValueError(
                f"{type(self).__name__}: steps_per_epoch must be at least 1, or None, "
                f"not {steps_per_epoch}"
            )
        self._steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Checks that there is a rate that can be set."""
        del logs
        _check_settable(self._optimizer(), type(self).__name__)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets the rate of the epoch, if it has one."""
        del logs
        self._epoch = epoch
        self._set(self.rate_of_epoch(epoch))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate of the batch, if it has one."""
        del logs
        self._set(self.rate_of_batch(self._epoch, batch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Logs the rate under the name that Keras' LearningRateScheduler uses."""
        del epoch
        if logs is not None:
            name = "learning_rate" if generations.package_of(self.model).generation == 3 else "lr"
            logs[name] = float(np.asarray(self._optimizer().learning_rate))

    def rate_of_epoch(self, epoch: int) -> float | None:
        """The rate to set at the beginning of an epoch; None: it stays."""
        raise NotImplementedError

    def rate_of_batch(self, epoch: int, batch: int) -> float | None:
        """The rate to set before a batch, which counts from 0; None: it stays."""
        raise NotImplementedError

    def _position(self, epoch: int, batch: int) -> float:
        """The number of epochs that lie before a batch."""
        steps = self._steps_per_epoch or (self.params or {}).get("steps")
        if not steps:
            raise ValueError(
                f"{type(self).__name__}: how many batches an epoch has is not known before its "
                "end; give steps_per_epoch to the callback"
            )
        fit = context.current().fit
        done = fit.elastic_run.done_before if fit and fit.elastic_run else 0.0
        share = 1.0 if self._steps_per_epoch else 1 - done  # of the epoch: that of these steps
        return epoch + min(done + share * batch / steps, 1.0)

    def _optimizer(self) -> Any:
        """The optimizer whose rate is set; of one that scales the loss, the optimizer inside."""
        optimizers = generations.optimizers_of(self.model)
        if len(optimizers) != 1:
            raise ValueError(
                f"{type(self).__name__}: the model has {len(optimizers) or 'no'} optimizers. Give "
                f"each its rate when it is made, by {_INSTEAD}"
            )
        return generations.innermost(optimizers[0])

    def _set(self, rate: float | None) -> None:
        if rate is not None:
            self._optimizer().learning_rate = rate


def _check_settable(optimizer: Any, who: str) -> None:
    what = f"{who}: the optimizer ({type(optimizer).__name__})"
    if hasattr(optimizer, "optimizers"):
        raise ValueError(
            f"{what} has a learning rate for each of its optimizers. Make each of them with its "
            f"own, by {_INSTEAD}"
        )
    hyperparameters = getattr(optimizer, "_hyper", {})  # of legacy Keras
    rate = hyperparameters.get("learning_rate", getattr(optimizer, "_learning_rate", None))
    if callable(rate):
        raise ValueError(
            f"{what} follows a schedule, {type(rate).__name__}, which a callback cannot change. "
            f"Leave the callback out and make the optimizer with {_INSTEAD} of the schedule"
        )
    if rate is None:
        raise ValueError(f"{what} has no learning rate that a callback can set")


def number(what: str, value: Any) -> float:
    """Returns `value` as a float, if it can be a rate."""
    try:
        rate = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a number, not {value!r}") from None
    if not math.isfinite(rate) or rate < 0:
        raise ValueError(f"{what} must be a finite number and not negative, not {value}")
    return rate
