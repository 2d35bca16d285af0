"""Keras' lines of progress, where an epoch need not have as many steps as the one before it.

Keras counts the steps of the first epoch, and shows that number in all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf import _keras
from kungfu_tf._replace import replace
from kungfu_tf.fit.running import Fit, current


def install(package: _keras.Package) -> None:
    """Puts itself in the place of what Keras does."""
    logger = package.module.callbacks.ProgbarLogger
    replace(logger, "on_epoch_begin", _begin)
    replace(logger, "_finalize_progbar", _finish)


def _begin(original: Callable[..., Any], self: Any, epoch: int, logs: Any = None) -> None:
    fit = _of(self)
    if fit is not None and fit.following is not None:
        self.epochs = fit.following.epochs
    if _changes(fit):
        self.target = None
    original(self, epoch, logs)
    self._kungfu_first = _counted(self)


def _finish(original: Callable[..., Any], self: Any, logs: Any, *counter: Any) -> None:
    if _changes(_of(self)):
        self.target = self.progbar.target = _counted(self) - self._kungfu_first
    original(self, logs, *counter)


def _of(logger: Any) -> Fit | None:
    """Of which `fit` it tells; None of an evaluation."""
    fit = current()
    return fit if fit is not None and fit.model is logger.model else None


def _changes(fit: Fit | None) -> bool:
    return fit is not None and fit.data is not None and fit.data.sizes is not None


def _counted(logger: Any) -> int:
    """How many steps there were in this `fit`."""
    counter = getattr(logger.model, "_train_counter", None)
    return int(counter.numpy()) if counter is not None else int(logger.seen)
