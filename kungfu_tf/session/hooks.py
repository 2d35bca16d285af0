"""Which hooks of a training session run on this peer, and ours among them."""

from __future__ import annotations

import copy
import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import _gate, config, peer
from kungfu_tf._hook import Hook
from kungfu_tf.initializer import BroadcastGlobalVariablesHook
from kungfu_tf.session import agreement, saves
from kungfu_tf.session.agreement import Reason
from kungfu_tf.session.average import AverageAtEnd
from kungfu_tf.session.rank0 import OfRank0

_log = logging.getLogger(__name__)

v1 = tf.compat.v1

_OF_RANK_0 = (
    v1.train.CheckpointSaverHook,
    v1.train.LoggingTensorHook,
    v1.train.ProfilerHook,
    v1.train.StepCounterHook,
    v1.train.SummarySaverHook,
)
# What these do needs no agreement in each step. (If of several StopAtSteps one is the first, those
# that go on learn it before their next step.)
_CALM = (
    *_OF_RANK_0,
    v1.train.FeedFnHook,
    v1.train.FinalOpsHook,
    v1.train.GlobalStepWaiterHook,
    v1.train.StopAtStepHook,
)


class NanLossError(tf.compat.v1.train.NanLossDuringTrainingError):
    """TensorFlow's error, which says on which peers."""

    def __str__(self) -> str:
        return f"NaN loss during training: {self.args[0]}"


class Stop:
    """How the training of a session has ended, on this peer."""

    def __init__(self) -> None:
        self.is_agreed = False


def arranged(hooks: list[Any], stop: Stop) -> list[Any]:
    """What runs on this peer: the program's, what writes only while it is rank 0; and ours.

    Args:
        hooks: What the program, or Estimator, gave.
        stop: Is told when the peers have agreed to stop.
    """
    ours = [hook for hook in hooks if isinstance(hook, Hook)]
    others = [hook for hook in hooks if not isinstance(hook, Hook)]
    watched = [_as_here(hook) for hook in others]
    nans = [hook for hook in watched if isinstance(hook, _Nan)]
    equal = [hook for hook in ours if isinstance(hook, BroadcastGlobalVariablesHook)]
    ours = sorted((h for h in ours if h not in equal), key=lambda hook: not hook.changes_peers)
    ours = [*(equal or [BroadcastGlobalVariablesHook()]), *ours]
    last = _Last(nans, stop, is_calm=all(map(_is_calm, others)))
    average: list[Any] = []
    if saves.can_average():
        savers = [hook for hook in watched if _is_plain_saver(hook)]
        watched = [hook for hook in watched if hook not in savers]
        average = [saves.SaveAverage(savers)]
    return [AverageAtEnd(hooks), *ours, _First(last), *average, *watched, last]


def watch_instead(loss: Any, local: Any) -> None:
    """A NaN is looked for in `local` where a hook is given `loss`, the mean over all peers."""
    loss.graph._kungfu_losses = {**getattr(loss.graph, "_kungfu_losses", {}), loss.ref(): local}


def _as_here(hook: Any) -> Any:
    """The program's hook as this peer has it."""
    prints = config.VERBOSE.get() == "all"
    if isinstance(hook, v1.train.NanTensorHook):
        return _Nan(hook)
    if isinstance(hook, v1.train.LoggingTensorHook) and prints:
        return hook
    if isinstance(hook, v1.train.StepCounterHook) and prints and not peer.is_root():
        hook = copy.copy(hook)
        hook._output_dir = hook._summary_writer = None
        return hook
    if _is_estimators(hook, "_StopOnPredicateHook"):  # it reads rank 0's files
        should_stop = hook._should_stop_fn
        hook._should_stop_fn = lambda: peer.is_root() and should_stop()
        return hook
    is_evaluator = _is_estimators(hook, "InMemoryEvaluatorHook")
    return OfRank0(hook) if isinstance(hook, _OF_RANK_0) or is_evaluator else hook


def _is_plain_saver(hook: Any) -> bool:
    return isinstance(hook, OfRank0) and type(hook.hook) is v1.train.CheckpointSaverHook


def _is_estimators(hook: Any, name: str) -> bool:
    """Whether its class is this one of tensorflow_estimator, which may not be there."""
    kind = type(hook)
    return kind.__name__ == name and kind.__module__.startswith("tensorflow_estimator.")


def _is_calm(hook: Any) -> bool:
    """Whether it neither stops the training on this peer alone nor takes long."""
    return type(hook) in _CALM and not getattr(hook, "_listeners", [])


class _First(tf.compat.v1.train.SessionRunHook):
    """Before the program's hooks."""

    def __init__(self, last: _Last) -> None:
        self._last = last

    def after_create_session(self, session: Any, coord: Any) -> None:
        del session, coord
        agreement.work.begin()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_values
        if self._last.meets_after(run_context):
            agreement.work.begin()

    def end(self, session: Any) -> None:
        del session
        agreement.work.begin()


class _Last(tf.compat.v1.train.SessionRunHook):
    """After the program's hooks: a step is done when those of all peers are.

    Where the hooks of all peers are calm the gate is enough: there the others wait for one that
    stops, until it closes the session.
    """

    def __init__(self, nans: list[_Nan], stop: Stop, is_calm: bool) -> None:
        self._nans = nans
        self._stop = stop
        self._is_calm = is_calm

    def after_create_session(self, session: Any, coord: Any) -> None:
        del session, coord
        self._is_calm = agreement.all_go_on(Reason.NONE if self._is_calm else Reason.STOP)

    def meets_after(self, run_context: Any) -> bool:
        """Whether the peers agree after this run."""
        return not self._is_calm and _gate.trains(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops all peers if a hook of one has asked for it."""
        del run_values
        if not self.meets_after(run_context):
            return
        mine = Reason.STOP if run_context.stop_requested else Reason.NONE
        mine = max([mine, *(nan.reason for nan in self._nans)])
        if agreement.all_go_on(mine):
            return
        self._stop.is_agreed = True
        run_context.request_stop()
        reasons = agreement.reasons(mine)
        if Reason.FAILED_BY_NAN in reasons:
            raise NanLossError(f"{agreement.explained(reasons)}. All peers stop")
        if Reason.NONE in reasons and peer.is_root():
            _log.warning("all peers stop after this step: %s", agreement.explained(reasons))

    def end(self, session: Any) -> None:
        """What rank 0 writes at the end is there when others go on."""
        del session
        if not peer.detached():
            agreement.all_go_on(Reason.NONE)


class _Nan(tf.compat.v1.train.SessionRunHook):
    """A `NanTensorHook`, whose finding all peers learn.

    Attributes:
        reason: What it found in the last step.
    """

    def __init__(self, hook: Any) -> None:
        self.reason = Reason.NONE
        self._hook = hook

    def begin(self) -> None:
        losses = getattr(v1.get_default_graph(), "_kungfu_losses", {})
        loss = self._hook._loss_tensor
        self._hook._loss_tensor = losses.get(loss.ref(), loss)
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._hook.before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        had_stopped = run_context.stop_requested
        try:
            self._hook.after_run(run_context, run_values)
        except v1.train.NanLossDuringTrainingError:
            if not _gate.trains(run_context):
                raise
            self.reason = Reason.FAILED_BY_NAN
            return
        stops = run_context.stop_requested and not had_stopped
        self.reason = Reason.NAN if stops else Reason.NONE

    def end(self, session: Any) -> None:
        self._hook.end(session)
