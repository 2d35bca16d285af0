"""Horovod's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.replicas import local_variables

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(kf.callbacks.BroadcastGlobalVariablesCallback):
    """Starts all processes from the model of one of them, before the first step.

    Args:
        root_rank: The rank whose model it is.
        device: Has no effect.
        local_variables: Variables of which each process keeps its own.
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Sequence[Any] | None = None
    ) -> None:
        del device
        super().__init__(root=root_rank)
        for variable in local_variables or []:
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """Lets each process keep its own value of a variable."""
        if not local_variables.is_local(var):  # the optimizer may have said its scale
            local_variables.mark(var, None)


class MetricAverageCallback(kf.callbacks.MetricAverageCallback):
    """Gives the metrics over the samples of all processes.

    Args:
        device: Has no effect.
    """

    def __init__(self, device: str = "") -> None:
        del device
        super().__init__()


class LearningRateScheduleCallback(kf.callbacks.LearningRateScheduleCallback):
    """Multiplies the learning rate in some epochs.

    Args:
        initial_lr: The rate that is multiplied, as the program has scaled it.
        multiplier: A function of the epoch; or a number, of which the power is taken that the epoch
            has from `start_epoch` on.
        start_epoch: The first epoch.
        end_epoch: The first epoch in which the rate is no longer set.
        staircase: Whether it is set at the beginning of epochs only.
        momentum_correction: Has no effect.
        steps_per_epoch: Batches of an epoch.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        del momentum_correction
        super().__init__(
            initial_lr,
            multiplier if callable(multiplier) else _power(multiplier, start_epoch),
            start_epoch=start_epoch,
            end_epoch=end_epoch,
            staircase=staircase,
            steps_per_epoch=steps_per_epoch,
        )


class LearningRateWarmupCallback(kf.callbacks.LearningRateWarmupCallback):
    """Lets the learning rate grow to the one that the program has scaled.

    Args:
        initial_lr: The rate at the end: as many times that of one process as there are processes.
        warmup_epochs: Epochs until then.
        momentum_correction: Has no effect.
        steps_per_epoch: Batches of an epoch.
        verbose: Whether rank 0 says when it has ended.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        del momentum_correction
        super().__init__(
            float(initial_lr) / peer.agreed_size(),
            warmup_epochs=int(warmup_epochs),
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Says that the last epoch of the warm-up is over."""
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch == self.warmup_epochs - 1 and kf.is_root():
            rate = self.initial_lr * peer.agreed_size()
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")

    def _position(self, epoch: int, batch: int) -> float:
        """The number of epochs that lie before the end of a batch."""
        return super()._position(epoch, batch + 1)


def _power(base: float, start: int) -> Callable[[float], float]:
    return lambda epoch: float(base ** (epoch - start))
