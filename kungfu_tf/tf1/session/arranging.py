"""Chooses the hooks of a training session that run on this peer, and adds ours."""

from __future__ import annotations

import copy
import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import config, peer
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.graph_average import AverageAtEnd
from kungfu_tf.tf1.hooks.broadcast import BroadcastGlobalVariablesHook
from kungfu_tf.tf1.hooks.policy import PolicyHook
from kungfu_tf.tf1.session import ending_agreement, hook_kinds, saves
from kungfu_tf.tf1.session.ending_agreement import Reason
from kungfu_tf.tf1.session.rank0 import RunsOnRank0
from kungfu_tf.upstream.hook import Hook

_log = logging.getLogger(__name__)

v1 = tf.compat.v1


class NanLossError(tf.compat.v1.train.NanLossDuringTrainingError):
    """TensorFlow's error, with the peers that have the NaN."""

    def __str__(self) -> str:
        return f"NaN loss during training: {self.args[0]}"


class Stop:
    """How the training of a session has ended on this peer."""

    def __init__(self) -> None:
        self.is_agreed = False


def arranged(hooks: list[Any], stop: Stop) -> list[Any]:
    """The hooks that run on this peer, ours and the program's. Writers run only on rank 0.

    Args:
        hooks: The hooks of the program or of Estimator.
        stop: Learns when the peers have agreed to stop.
    """
    ours = [hook for hook in hooks if isinstance(hook, Hook)]
    others = [hook for hook in hooks if not isinstance(hook, Hook)]
    watched = [_as_here(hook) for hook in others]
    nans = [hook for hook in watched if isinstance(hook, _Nan)]
    equal = [hook for hook in ours if isinstance(hook, BroadcastGlobalVariablesHook)]
    ours = sorted((h for h in ours if h not in equal), key=_place)
    ours = [*(equal or [BroadcastGlobalVariablesHook()]), *ours]
    last = _Last(nans, stop, needs_no_agreement=all(map(hook_kinds.needs_no_agreement, others)))
    average: list[Any] = []
    if saves.can_average():
        savers = [hook for hook in watched if _is_plain_saver(hook)]
        watched = [hook for hook in watched if hook not in savers]
        average = [saves.SaveAverage(savers)]
    return [AverageAtEnd(hooks), *ours, _First(last), *average, *watched, last]


def _place(hook: Hook) -> int:
    """First peers come and go, then policies that change their number look; then the others."""
    return 2 if not hook.changes_peers else int(isinstance(hook, PolicyHook))


def watch_instead(loss: Any, local: Any) -> None:
    """Makes a hook that is given `loss`, the mean over all peers, look for NaN in `local`."""
    loss.graph._kungfu_losses = {**getattr(loss.graph, "_kungfu_losses", {}), loss.ref(): local}


def _as_here(hook: Any) -> Any:
    """The form in which this peer runs a hook of the program."""
    prints = config.VERBOSE.get() == "all"
    if isinstance(hook, v1.train.NanTensorHook):
        return _Nan(hook)
    if isinstance(hook, v1.train.LoggingTensorHook) and prints:
        return hook
    if isinstance(hook, v1.train.StepCounterHook) and prints:
        return RunsOnRank0(hook, meanwhile=_without_files(hook))
    if hook_kinds.stops_by_files(hook):
        return _by_files_of_rank_0(hook)
    return RunsOnRank0(hook) if hook_kinds.writes(hook) else hook


def _without_files(counter: Any) -> Any:
    """A `StepCounterHook` that only prints."""
    counter = copy.copy(counter)
    counter._output_dir = counter._summary_writer = None
    return counter


def _by_files_of_rank_0(hook: Any) -> Any:
    """A hook that only rank 0, which has the files, lets stop the training."""
    hook, should_stop = copy.copy(hook), hook._should_stop_fn
    hook._should_stop_fn = lambda: peer.is_root() and should_stop()
    return hook


def _is_plain_saver(hook: Any) -> bool:
    return isinstance(hook, RunsOnRank0) and type(hook.hook) is v1.train.CheckpointSaverHook


class _First(tf.compat.v1.train.SessionRunHook):
    """Runs before the program's hooks."""

    def __init__(self, last: _Last) -> None:
        self._last = last

    def after_create_session(self, session: Any, coord: Any) -> None:
        del session, coord
        ending_agreement.work.begin()

    def before_run(self, run_context: Any) -> None:
        if self._last.meets_before(run_context):  # hooks of a new rank 0 begin now
            ending_agreement.work.begin()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_values
        if self._last.meets_after(run_context):
            ending_agreement.work.begin()

    def end(self, session: Any) -> None:
        del session
        ending_agreement.work.begin()


class _Last(tf.compat.v1.train.SessionRunHook):
    """Runs after the program's hooks: a step is over when the hooks of all peers are done.

    If the hooks of no peer need an agreement, the gate is enough: the others wait there for a peer
    that stops, until it closes its session.
    """

    def __init__(self, nans: list[_Nan], stop: Stop, needs_no_agreement: bool) -> None:
        self._nans = nans
        self._stop = stop
        self._needs_none_here = needs_no_agreement

    def after_create_session(self, session: Any, coord: Any) -> None:
        del session, coord
        self._agree()

    def before_run(self, run_context: Any) -> None:
        if self.meets_before(run_context):
            self._agree()

    def meets_before(self, run_context: Any) -> bool:
        """Whether the peers have changed since they agreed: then all agree before this step."""
        return self._peers != peer.agreed_version() and gates.trains(run_context)

    def meets_after(self, run_context: Any) -> bool:
        """Whether the peers agree after this run."""
        return not self._needs_no_agreement and gates.trains(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops all peers if a hook on one of them has asked for it."""
        del run_values
        if not self.meets_after(run_context):
            return
        mine = Reason.STOP if run_context.stop_requested else Reason.NONE
        mine = max([mine, *(nan.reason for nan in self._nans)])
        if ending_agreement.all_go_on(mine):
            return
        self._stop.is_agreed = True
        run_context.request_stop()
        reasons = ending_agreement.reasons(mine)
        if Reason.FAILED_BY_NAN in reasons:
            raise NanLossError(f"{ending_agreement.explained(reasons)}. All peers stop")
        if Reason.NONE in reasons and peer.is_root():
            _log.warning("all peers stop after this step: %s", ending_agreement.explained(reasons))

    def _agree(self) -> None:
        """Agrees on whether the peers meet after each step."""
        self._peers = None if peer.joining() else peer.agreed_version()
        reason = Reason.NONE if self._needs_none_here else Reason.STOP
        self._needs_no_agreement = ending_agreement.all_go_on(reason)

    def end(self, session: Any) -> None:
        """Waits, so that rank 0's last files are there when the others continue."""
        del session
        if not peer.detached():
            ending_agreement.all_go_on(Reason.NONE)


class _Nan(tf.compat.v1.train.SessionRunHook):
    """A `NanTensorHook` whose result all peers learn.

    Attributes:
        reason: Its result in the last step.
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
            if not gates.trains(run_context):
                raise
            self.reason = Reason.FAILED_BY_NAN
            return
        stops = run_context.stop_requested and not had_stopped
        self.reason = Reason.NAN if stops else Reason.NONE

    def end(self, session: Any) -> None:
        self._hook.end(session)
