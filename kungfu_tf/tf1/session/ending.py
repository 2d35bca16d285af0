"""Ends a step, and with it the session, on all peers at once.

A peer that cannot continue interrupts the epoch. Then all operations fail in which the others would
wait for it, also the gate of the next step, so that step changes nothing on any peer. Operations
that it has begun are completed. Then all peers begin a new epoch together.
"""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.membership import failing_together
from kungfu_tf.tf1.session import ending_agreement
from kungfu_tf.tf1.session.ending_agreement import Reason

_log = logging.getLogger(__name__)


def end(session: Any, reason: Reason) -> str:
    """Ends the next step, or one that has failed, on all peers.

    All peers call it: those that have a reason to stop, and the others when their step is
    interrupted.

    Args:
        session: The session of the step.
        reason: This peer's reason to stop.

    Returns:
        Which peers stop, and why.
    """
    session._kungfu_ended = True
    if reason != Reason.NONE:
        peer.interrupt(tf.errors.OUT_OF_RANGE, "not all peers go on")
    peer.begin_epoch()
    reasons = ending_agreement.reasons(reason)
    stop = f"all peers stop before this step: {ending_agreement.explained(reasons)}"
    message = errors.linked("no-more-data", stop)
    if Reason.NONE in reasons and peer.is_root():
        _log.warning("%s", message)
    return message


def error_of_all(session: Any, error: Any) -> Any:
    """Tells all peers that a step has failed on this one.

    Args:
        session: The session of the step.
        error: An error of TensorFlow.

    Returns:
        The error to raise. It is an OutOfRangeError if the data of some peer have ended.
    """
    why = ending_agreement.cause(error) if _is_of_peers(error) else error
    if isinstance(why, tf.errors.OutOfRangeError):
        if why is error and not _is_of_peers(error):
            end(session, Reason.END_OF_DATA)
            return error
        message = end(session, Reason.NONE)
        return tf.errors.OutOfRangeError(None, None, message)
    announce(session, why)
    return why


def announce(session: Any, error: BaseException) -> None:
    """Ends the step or session on all peers because of an error of this one, which it logs once."""
    if getattr(session, "_kungfu_told", None) is not error:
        session._kungfu_told = error
        failing_together.announce_failure("the session", error)


def _is_of_peers(error: Any) -> bool:
    """Whether the error is from a collective."""
    return error.op is not None and error.op.type.startswith("Kungfu")
