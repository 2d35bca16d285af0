"""Which callbacks of `fit` run on this peer."""

from __future__ import annotations

from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.fit import step_logs
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.fit.follow_steps import FollowSteps
from kungfu_tf.keras.fit.given_callbacks import has_ours
from kungfu_tf.keras.fit.last_check import LastCheck
from kungfu_tf.keras.fit.membership_change import FollowChanges
from kungfu_tf.keras.fit.saves import around_saves
from kungfu_tf.keras.fit.together import First, StopTogether, StopTogetherAtOnce
from kungfu_tf.upstream import generations

# Not every version of Keras has all of them.
_WRITERS = ("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "OrbaxCheckpoint", "TensorBoard")


def arranged(fit: Fit, callbacks: list[Any], stops_early: bool) -> list[Any]:
    """What runs on this peer: the user's without what writes files, unless it is rank 0; and ours.

    Args:
        fit: What they are for.
        callbacks: What the user gave.
        stops_early: Whether some peer's training may stop after any batch.
    """
    mine = [c for c in callbacks if peer.is_root() or not isinstance(c, writers(fit.model))]
    first = [] if has_ours(mine) else [BroadcastGlobalVariablesCallback()]
    for callback in [*first, *mine]:
        if isinstance(callback, BroadcastGlobalVariablesCallback):
            callback.checks_first_step = fit.elastic_run is None or fit.elastic_run.step == 0
    last = StopTogetherAtOnce if stops_early and fit.is_synchronous else StopTogether
    before, after = around_saves(fit, callbacks) if fit.is_synchronous else ([], [])
    if step_logs.are_shared_with_callbacks(fit.model):
        fit.step_logs = step_logs.StepLogs()
    noted = [fit.step_logs] if fit.step_logs else []
    steps = [FollowSteps(fit.elastic_run)] if fit.elastic_run else []
    follow = [FollowChanges(fit.elastic_run, fit.differs)] if fit.elastic_run else []
    check = LastCheck(fit, [*first, *mine])
    return [
        *(*noted, *steps, First(fit), *first, *before, *mine, *after),
        *(last(fit), *follow, check),
    ]


def writers(model: Any) -> tuple[type, ...]:
    """The callbacks that write files, which only rank 0 has."""
    known = generations.package_of(model).module.callbacks
    return tuple(getattr(known, name) for name in _WRITERS if hasattr(known, name))
