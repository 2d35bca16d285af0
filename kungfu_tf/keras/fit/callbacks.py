"""Which callbacks of `fit` run on this peer."""

from __future__ import annotations

from typing import Any

from kungfu_tf import peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.fit import step_logs
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.fit.count_steps import CountSteps
from kungfu_tf.keras.fit.given_callbacks import has_ours
from kungfu_tf.keras.fit.going_on import GoOn
from kungfu_tf.keras.fit.last_check import LastCheck
from kungfu_tf.keras.fit.leaving import LeaveOnNotice
from kungfu_tf.keras.fit.membership_change import LeaveOnChange
from kungfu_tf.keras.fit.saves import around_saves, find_backups
from kungfu_tf.keras.fit.taken_over import Root, by_next_root
from kungfu_tf.keras.fit.together import (
    ShareState,
    StopTogether,
    StopTogetherAtMeetings,
    StopTogetherAtOnce,
)
from kungfu_tf.upstream import generations

# Not every version of Keras has all of them.
_WRITERS = ("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "OrbaxCheckpoint", "TensorBoard")

# If some peer's training may stop after any batch.
_STOP = {
    Meets.EVERY_STEP: StopTogetherAtOnce,
    Meets.SOMETIMES: StopTogetherAtMeetings,
    Meets.NEVER: StopTogether,
}


def arranged(
    fit: Fit, callbacks: list[Any], stops_early: bool, *, verbose: bool = False
) -> list[Any]:
    """The callbacks that run on this peer: the program's, among ours.

    Callbacks that write files run on rank 0 only.

    Args:
        fit: The call.
        callbacks: The callbacks that the program gave.
        stops_early: Whether some peer's training may stop after any batch.
        verbose: Whether rank 0 prints.
    """
    mine = [c for c in callbacks if peer.is_root() or not isinstance(c, writers(fit.model))]
    survival = []
    if peer.survives():
        root = Root()
        taken_over = {id(c): by_next_root(c, fit.model, root) for c in callbacks if c not in mine}
        kept = [c for c in callbacks if taken_over.get(id(c), c) is not None]
        survival = [GoOn(fit, callbacks, kept, verbose)]
        if fit.notice is not None:
            survival.append(LeaveOnNotice(fit, callbacks, fit.notice))
        mine = [root, *(taken_over.get(id(c), c) for c in kept)]
    compare = [] if has_ours(mine) else [BroadcastGlobalVariablesCallback()]
    run = fit.elastic_run
    for callback in [*compare, *mine]:
        if isinstance(callback, BroadcastGlobalVariablesCallback):
            callback.checks_first_step = run is None or run.step == 0
    meets = fit.meets is not Meets.NEVER
    before_saves, after_saves = around_saves(fit, callbacks) if meets else ([], [])
    fit.saves_after_batches = bool(before_saves)
    find_backups(fit, callbacks)
    if step_logs.are_shared_with_callbacks(fit.model):
        fit.step_logs = step_logs.StepLogs()
    stop = _STOP[fit.meets] if stops_early else StopTogether
    return [
        *([fit.step_logs] if fit.step_logs else []),
        *([CountSteps(run)] if run else []),
        ShareState(fit),
        *compare,
        *before_saves,
        *mine,
        *after_saves,
        stop(fit),
        *survival,
        *([LeaveOnChange(run, fit.differs)] if run else []),
        LastCheck(fit, [*compare, *mine]),
    ]


def writers(model: Any) -> tuple[type, ...]:
    """The classes of callbacks that write files."""
    known = generations.package_of(model).module.callbacks
    return tuple(getattr(known, name) for name in _WRITERS if hasattr(known, name))
