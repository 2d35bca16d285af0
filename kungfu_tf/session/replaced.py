"""The functions of TensorFlow that are replaced once we are used.

That is when an optimizer is wrapped or a hook of ours made. For graphs that are trained without us,
and in a process that is alone, they do what they did.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as client
from tensorflow.python.training import monitored_session as monitored

from kungfu_tf import _gate, peer
from kungfu_tf._hook import Hook
from kungfu_tf._replace import replace
from kungfu_tf.fit import in_step
from kungfu_tf.session import agreement, first_run, kept, scope
from kungfu_tf.session.agreement import Reason
from kungfu_tf.session.hooks import Stop, arranged

_log = logging.getLogger(__name__)

_ESTIMATOR = "tensorflow_estimator"


def install(*, with_estimators: bool) -> None:
    """Replaces them, once.

    Args:
        with_estimators: Also those of Estimator, where TensorFlow has one: it is imported when it
            is first used, and that may be now.
    """
    replace(client.BaseSession, "run", _run)
    replace(monitored._MonitoredSession, "__init__", _create)
    replace(monitored._MonitoredSession, "run", _run_monitored)
    replace(monitored._MonitoredSession, "_close_internal", _close)
    is_there = with_estimators and importlib.util.find_spec(_ESTIMATOR) is not None
    if is_there or _ESTIMATOR in sys.modules:
        from kungfu_tf.session import estimator

        estimator.install()


def _run(
    original: Callable[..., Any], session: Any, fetches: Any, *args: Any, **kwargs: Any
) -> Any:
    """A step that some peer has no data for ends on all peers before it has changed anything."""
    gates = _gate.gates_of(session.graph)
    if not gates or scope.is_private():
        return original(session, fetches, *args, **kwargs)
    first_run.make_equal(session, fetches)
    try:
        return original(session, fetches, *args, **kwargs)
    except tf.errors.OutOfRangeError:
        reached = _gate.gates_reached(session.graph, fetches)
        if not reached:
            raise
        _end(session, reached, Reason.END_OF_DATA)
        raise
    except tf.errors.InvalidArgumentError as error:
        if error.op not in [gate.passed for gate in gates]:
            raise
    message = _end(session, [], Reason.NONE)
    raise tf.errors.OutOfRangeError(None, None, f"all peers stop: {message}")


def _end(session: Any, gates: list[_gate.Gate], reason: Reason) -> str:
    """Ends a step, or the session, on all peers; returns what stops them."""
    for gate in gates:
        gate.vote_no()
    session._kungfu_ended = True
    reasons = agreement.reasons(reason)
    peer.begin_epoch()  # in the step that has ended some have issued more operations than others
    message = agreement.explained(reasons)
    if Reason.NONE in reasons and peer.is_root():
        _log.warning("all peers stop before this step: %s", message)
    return message


def _create(
    original: Callable[..., Any],
    session: Any,
    session_creator: Any,
    hooks: Any,
    should_recover: bool,
    **kwargs: Any,
) -> None:
    hooks = list(hooks or [])
    if not scope.is_shared(tf.compat.v1.get_default_graph(), hooks):
        if scope.is_within_private():
            hooks = kept.restoring([hook for hook in hooks if not isinstance(hook, Hook)])
        original(session, session_creator, hooks, should_recover, **kwargs)
        return
    session._kungfu_stop = Stop()
    hooks = arranged(hooks, session._kungfu_stop)
    directory = getattr(session_creator, "_checkpoint_dir", None)
    if directory:
        hooks.append(kept.Keep(directory))
    if not peer.is_root():
        session_creator = _without_checkpoint(session_creator)
    try:
        # A peer that is gone is no reason to begin anew, alone.
        original(session, session_creator, hooks, should_recover=False, **kwargs)
    finally:
        agreement.work.end()


def _without_checkpoint(creator: Any) -> Any:
    """One that initialises: the state is rank 0's."""
    if isinstance(creator, monitored.WorkerSessionCreator):  # would wait for a chief
        return monitored.ChiefSessionCreator(
            scaffold=creator._scaffold, master=creator._master, config=creator._config
        )
    creator = copy.copy(creator)
    for name in ("_checkpoint_dir", "_checkpoint_filename_with_path"):
        if hasattr(creator, name):
            setattr(creator, name, None)
    return creator


def _run_monitored(original: Callable[..., Any], session: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return original(session, *args, **kwargs)
    finally:
        if hasattr(session, "_kungfu_stop"):
            agreement.work.end()


def _close(original: Callable[..., Any], session: Any, exception_type: Any = None) -> None:
    stop = getattr(session, "_kungfu_stop", None)
    if stop is None or session._tf_sess() is None:
        original(session, exception_type)
        return
    if (error := sys.exc_info()[1]) is not None and exception_type is not None:
        in_step.tell("the session", error)
    raw = session._tf_sess()
    gates = _gate.gates_of(raw.graph)
    is_agreed = stop.is_agreed or hasattr(raw, "_kungfu_ended")
    # Of several gates it is unknown before which the others wait.
    if exception_type is None and not is_agreed and len(gates) == 1:
        _end(raw, gates, Reason.LEFT)
    try:
        original(session, exception_type)
    finally:
        agreement.work.end()
