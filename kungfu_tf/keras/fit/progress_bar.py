"""Keras' progress bar in a training whose epochs have different numbers of steps.

Keras counts the steps of the first epoch, and shows that number in all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf.keras.fit.call import Fit, current


def begin_epoch(original: Callable[..., Any], self: Any, epoch: int, logs: Any = None) -> None:
    """Keras' method. Forgets the number of steps of the previous epoch, if this may differ."""
    fit = _of(self)
    if fit is not None and fit.elastic_run is not None:
        self.epochs = fit.elastic_run.epochs
    if _changes(fit):
        self.target = None
    original(self, epoch, logs)
    self._kungfu_first = _counted(self)


def finish(original: Callable[..., Any], self: Any, logs: Any, *counter: Any) -> None:
    """Keras' method. Shows the number of steps that the epoch had."""
    if _changes(_of(self)):
        self.target = self.progbar.target = _counted(self) - self._kungfu_first
    original(self, logs, *counter)


def _of(logger: Any) -> Fit | None:
    """The `fit` whose progress the bar shows; None if it shows that of an evaluation."""
    fit = current()
    return fit if fit is not None and fit.model is logger.model else None


def _changes(fit: Fit | None) -> bool:
    return fit is not None and fit.data is not None and fit.data.sizes is not None


def _counted(logger: Any) -> int:
    """How many steps there were in this `fit`."""
    counter = getattr(logger.model, "_train_counter", None)
    return int(counter.numpy()) if counter is not None else int(logger.seen)
