"""Averages moving statistics and models before a callback saves in the middle of an epoch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from kungfu_tf import peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.saving.own_parts import OwnParts
from kungfu_tf.replicas.average import average_variables, share_state
from kungfu_tf.replicas.moving_statistics import average_statistics
from kungfu_tf.replicas.objects import broadcast_object
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class AverageBeforeSaves(Callback):
    """Averages moving statistics, and models that differ, before rank 0 saves after a batch.

    All peers have the same number of batches. So they agree once on how often rank 0 saves, and
    know when it will.
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
            before_backup(self._fit)
            if self._fit.differs:
                self._fit.average.enter_context(average_variables(self.model))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        for rhythm in self._rhythms:
            rhythm.end_epoch()


class OwnModelAfterSaves(Callback):
    """Gives each peer its own model again after a save."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        self._fit.average.close()


def find_backups(fit: Fit, callbacks: list[Any]) -> None:
    """Notes whether rank 0 saves what peers have of their own. All peers call it."""
    algorithms = generations.algorithms_of_model(fit.model)
    is_apart = bool(algorithms) and all(a.meets is Meets.SOMETIMES for a in algorithms)
    if not is_apart and not any(algorithm.has_own_state for algorithm in algorithms):
        return
    package = generations.package_of(fit.model)
    known = package.module.callbacks
    mine = [c for c in callbacks if isinstance(c, known.BackupAndRestore)]
    backups = [(os.fspath(c.backup_dir), not c.delete_checkpoint) for c in mine]
    saves = bool(backups) or any(isinstance(c, known.ModelCheckpoint) for c in callbacks)
    backups, saves = broadcast_object((backups, saves), name="fit/backups")
    saves_slots = saves and any(a.is_sharded for a in algorithms)
    fit.backs_up = saves_slots or (bool(backups) and any(a.has_own_state for a in algorithms))
    if backups and is_apart and fit.elastic_run is None and package.generation == 3:
        folder, is_kept = backups[0]
        fit.own_parts = OwnParts(fit.model, folder, is_kept=is_kept)


def before_backup(fit: Fit) -> None:
    """Prepares what rank 0 will back up, if it does. All peers call it."""
    if fit.backs_up:
        share_state(fit.model)
    if fit.own_parts is not None:
        fit.own_parts.save()


def around_saves(fit: Fit, callbacks: list[Any]) -> tuple[list[Callback], list[Callback]]:
    """The callbacks to run before and after the program's, if one on rank 0 saves after batches.

    All peers call it.
    """
    mine = list(_rhythms(fit.model, callbacks)) if peer.is_root() else []
    numbers = iter(
        agreement.gather_ints([n for rhythm in mine for n in dataclasses.astuple(rhythm)])
    )
    fields = [numbers] * len(dataclasses.fields(_Rhythm))
    rhythms = [_Rhythm(*of_one) for of_one in zip(*fields, strict=True)]
    if not rhythms:
        return [], []
    return [AverageBeforeSaves(fit, rhythms)], [OwnModelAfterSaves(fit)] if fit.differs else []


@dataclasses.dataclass
class _Rhythm:
    """Knows after which batches a callback of Keras saves. It counts as the callback does.

    Attributes:
        period: The number of batches between two saves.
        counts_calls: Whether it counts calls and not batches, as Keras 2's BackupAndRestore does.
        begins_at_0: Whether an epoch begins after batch 0, as for Keras 3's BackupAndRestore, which
            does not count the first step of an epoch's first execution if that has several.
        seen: The number of batches, or calls, since the last save.
        last: The number of the last batch.
    """

    period: int
    counts_calls: int
    begins_at_0: int
    seen: int
    last: int

    def saves_after(self, batch: int) -> bool:
        is_new_epoch = batch <= self.last
        batches = batch + 1 if is_new_epoch else batch - self.last
        self.last = batch
        self.seen += 1 if self.counts_calls else batches
        if self.seen < self.period:
            return False
        self.seen = 0
        return True

    def end_epoch(self) -> None:
        if self.begins_at_0:
            self.last = 0


def _rhythms(model: Any, callbacks: list[Any]) -> Iterator[_Rhythm]:
    """The rhythms of the callbacks that save after batches."""
    package = generations.package_of(model)
    savers = package.module.callbacks
    count_batches = [savers.ModelCheckpoint]
    if hasattr(savers, "OrbaxCheckpoint"):
        count_batches.append(savers.OrbaxCheckpoint)
    for callback in callbacks:
        period = getattr(callback, "save_freq", None)
        if not isinstance(period, int) or isinstance(period, bool):
            continue
        is_backup = isinstance(callback, savers.BackupAndRestore)
        if not is_backup and not isinstance(callback, tuple(count_batches)):
            continue
        counts_calls = is_backup and package.generation < 3
        seen = "_batches_count" if counts_calls else "_batches_seen_since_last_saving"
        last = getattr(callback, "_last_batch_seen", None)
        yield _Rhythm(
            period,
            counts_calls=int(counts_calls),
            begins_at_0=int(is_backup and not counts_calls),
            seen=getattr(callback, seen),
            last=-1 if last is None else last,
        )
