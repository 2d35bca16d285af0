"""The functions that replace those of TensorFlow's sessions, once patched (`patches.py`)."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.training import monitored_session as monitored

from kungfu_tf import context, errors, peer
from kungfu_tf.replicas import gates
from kungfu_tf.tf1.session import checkpoint, ending, ending_agreement, first_run, sharing
from kungfu_tf.tf1.session.arranging import Stop, arranged
from kungfu_tf.tf1.session.ending_agreement import Reason
from kungfu_tf.tf1.verify.steps import Verification
from kungfu_tf.upstream.hook import Hook


def run(original: Callable[..., Any], session: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
    """Ends a step for which some peer has no data on all peers, before it changes anything."""
    if not gates.gates_of(session.graph) or sharing.is_private():
        return original(session, fetches, *args, **kwargs)
    first_run.make_equal(session, fetches)
    try:
        return _verified(original, session, fetches, *args, **kwargs)
    except tf.errors.OpError as error:
        if not gates.gates_reached(session.graph, fetches):
            raise
        of_all = ending.error_of_all(session, error)
        if of_all is error:
            raise
    raise of_all


def _verified(
    original: Callable[..., Any],
    session: Any,
    fetches: Any,
    feed_dict: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    def run(fetches: Any, feed_dict: Any = None) -> Any:
        return original(session, fetches, feed_dict, *args, **kwargs)

    return Verification.of(session).run(run, fetches, feed_dict)


def create(
    original: Callable[..., Any],
    session: Any,
    session_creator: Any,
    hooks: Any,
    should_recover: bool,
    **kwargs: Any,
) -> None:
    hooks = list(hooks or [])
    ours = [hook for hook in hooks if isinstance(hook, Hook)]
    follows = any(hook.changes_peers for hook in ours)
    for hook in ours:
        hook.follows = follows
    if not sharing.is_shared(tf.compat.v1.get_default_graph(), hooks):
        if context.current().is_private:
            hooks = checkpoint.restoring([hook for hook in hooks if not isinstance(hook, Hook)])
        original(session, session_creator, hooks, should_recover, **kwargs)
        return
    if peer.joining() and not follows:
        raise errors.FailedPreconditionError(
            "MonitoredSession: this peer has joined a job that is already training, and nothing "
            "takes it in. Give the session, or the Estimator, a kungfu_tf.hooks.ElasticHook, or "
            "call kungfu_tf.resize() before"
        )
    session._kungfu_stop = Stop()
    hooks = arranged(hooks, session._kungfu_stop)
    directory = getattr(session_creator, "_checkpoint_dir", None)
    if directory:
        hooks.append(checkpoint.Keep(directory))
    if not peer.is_root():
        session_creator = _without_checkpoint(session_creator)
    try:
        # When another peer is gone, this one must not begin anew on its own.
        original(session, session_creator, hooks, should_recover=False, **kwargs)
    finally:
        ending_agreement.work.end()


def _without_checkpoint(creator: Any) -> Any:
    """A creator that initialises instead of restoring: the state comes from rank 0."""
    if isinstance(creator, monitored.WorkerSessionCreator):  # it would wait for a chief
        return monitored.ChiefSessionCreator(
            scaffold=creator._scaffold, master=creator._master, config=creator._config
        )
    creator = copy.copy(creator)
    for name in ("_checkpoint_dir", "_checkpoint_filename_with_path"):
        if hasattr(creator, name):
            setattr(creator, name, None)
    return creator


def run_monitored(original: Callable[..., Any], session: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return original(session, *args, **kwargs)
    finally:
        if hasattr(session, "_kungfu_stop"):
            ending_agreement.work.end()


def close(original: Callable[..., Any], session: Any, exception_type: Any = None) -> None:
    try:
        _end(original, session, exception_type)
    finally:
        for hook in session._hooks:
            if isinstance(hook, Hook):
                hook.close()


def _end(original: Callable[..., Any], session: Any, exception_type: Any) -> None:
    stop = getattr(session, "_kungfu_stop", None)
    if stop is None or session._tf_sess() is None:
        original(session, exception_type)
        return
    raw = session._tf_sess()
    if (error := sys.exc_info()[1]) is not None and exception_type is not None:
        ending.announce(raw, error)
    is_agreed = stop.is_agreed or hasattr(raw, "_kungfu_ended")
    if exception_type is None and not is_agreed and gates.gates_of(raw.graph):
        ending.end(raw, Reason.LEFT)
    try:
        original(session, exception_type)
    finally:
        ending_agreement.work.end()
