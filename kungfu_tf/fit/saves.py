"""Saves in the middle of an epoch hold what is of all peers: moving statistics, and models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kungfu_tf import _keras, peer
from kungfu_tf._average import average_variables
from kungfu_tf._callback import Callback
from kungfu_tf.fit import agreement
from kungfu_tf.fit.running import Fit
from kungfu_tf.fit.statistics import average_statistics


class AverageBeforeSaves(Callback):
    """Averages the moving statistics before rank 0 saves after a batch, and models that differ.

    When it will follows from how often it does, and from the batches, of which all peers have as
    many. So the peers need to speak about it once.
    """

    def __init__(self, fit: Fit, rhythms: list[_Rhythm]) -> None:
        super().__init__()
        self._fit = fit
        self._rhythms = rhythms

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        due = [rhythm.saves_after(batch) for rhythm in self._rhythms]
        if any(due):
            average_statistics(self.model)
            if self._fit.differs:
                self._fit.average.enter_context(average_variables(self.model))


class OwnModelAfterSaves(Callback):
    """Ends the average."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        self._fit.average.close()


def around_saves(fit: Fit, callbacks: list[Any]) -> tuple[list[Callback], list[Callback]]:
    """What runs before and after others, if one that was given to rank 0 saves after batches.

    All peers must call it.
    """
    mine = list(_periods(fit.model, callbacks)) if peer.is_root() else []
    rhythms = [_Rhythm(abs(period), period < 0) for period in agreement.joined(mine)]
    if not rhythms:
        return [], []
    return [AverageBeforeSaves(fit, rhythms)], [OwnModelAfterSaves(fit)] if fit.differs else []


class _Rhythm:
    """Counts as Keras' callbacks do: batches, or how often it is called."""

    def __init__(self, period: int, counts_calls: bool) -> None:
        self._period = period
        self._counts_calls = counts_calls
        self._seen = 0
        self._last = -1

    def saves_after(self, batch: int) -> bool:
        is_new_epoch = batch <= self._last
        batches = batch + 1 if is_new_epoch else batch - self._last
        self._last = batch
        self._seen += 1 if self._counts_calls else batches
        if self._seen < self._period:
            return False
        self._seen = 0
        return True


def _periods(model: Any, callbacks: list[Any]) -> Iterator[int]:
    """After how many batches callbacks save; negative: after how many calls."""
    package = _keras.package_of(model)
    savers = package.module.callbacks
    count_batches = [savers.ModelCheckpoint]
    if hasattr(savers, "OrbaxCheckpoint"):
        count_batches.append(savers.OrbaxCheckpoint)
    for callback in callbacks:
        period = getattr(callback, "save_freq", None)
        if isinstance(period, int) and not isinstance(period, bool):
            if isinstance(callback, tuple(count_batches)):
                yield period
            elif isinstance(callback, savers.BackupAndRestore):
                yield period if package.generation == 3 else -period
