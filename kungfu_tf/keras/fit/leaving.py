"""The callback by which a peer that got SIGTERM leaves `fit`: alone, or with all others."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from kungfu_tf import peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.saving import backup_at_step
from kungfu_tf.membership.notice import LeftOnNotice, Notice
from kungfu_tf.replicas.average import average_variables, share_state
from kungfu_tf.replicas.moving_statistics import average_statistics
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class LeaveOnNotice(Callback):
    """Ends the program between two steps. If all peers end, rank 0 makes its backups before.

    Args:
        fit: The call.
        given: The callbacks that the program gave.
        notice: What SIGTERM has asked.
    """

    def __init__(self, fit: Fit, given: Sequence[Any], notice: Notice) -> None:
        super().__init__()
        self._fit = fit
        self._given = given
        self._notice = notice
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        run = self._fit.elastic_run
        self._notice.count_from(0 if run is None else run.step)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        del logs
        code = self._notice.before_step()
        if code is None:
            return
        if self._notice.is_common and self._fit.meets is not Meets.NEVER:
            self._back_up(batch)
        raise LeftOnNotice(code)

    def _back_up(self, batches: int) -> None:
        """All peers call it, after the same step."""
        fit, model = self._fit, self.model
        kind = generations.package_of(model).module.callbacks.BackupAndRestore
        backups = [c for c in self._given if isinstance(c, kind) and peer.is_root()]
        if not agreement.from_root([len(backups)])[0]:
            return
        average_statistics(model)
        if fit.backs_up:
            share_state(model)
        with average_variables(model) if fit.differs else contextlib.nullcontext():
            for backup in backups:
                backup_at_step.back_up(
                    backup, model, self._epoch, batches, knows_place=fit.elastic_run is not None
                )
