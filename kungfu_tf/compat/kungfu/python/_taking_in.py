"""Resizes like KungFu's, which take newcomers in within the call.

kungfu_tf's own `resize` does not wait: the others train while newcomers boot. A program of KungFu's
that calls `resize(n)` may do so only once. So this one waits, for some minutes at most. A newcomer
to such a program comes in where it first asks for a rank or a collective, as the others may do
nothing before. In sessions with policies it comes in before its first step.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kungfu_tf import config, errors, peer
from kungfu_tf.upstream import warn

__all__ = ["change_over", "come_in", "come_in_by_hooks", "comes_in", "propose"]

T = TypeVar("T")

_MOST_SECONDS = 300.0  # that a call waits for newcomers
_INTERVAL = 0.1
_MARK = "resizes-by-calls"  # in the run directory: newcomers find it
_by_hooks = False


def change_over(n: int | None, progress: int | None = None) -> tuple[bool, bool]:
    """Goes over to the newest list of peers, and waits for newcomers if a number is given.

    Args:
        n: How many peers there should be; rank 0's number counts. None: asks for none.
        progress: As for `kungfu_tf.resize`.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    come_in()
    if n is None:
        return peer.resize(progress=progress), peer.detached()
    if peer.launched() and not _by_hooks:
        (config.run_directory() / _MARK).touch()
    wanted = peer.all_reduce_int_max(n if peer.rank() == 0 else 0)
    version, fails = peer.membership_version(), False
    try:
        peer.resize(n=wanted, progress=progress)
    except errors.FailedPreconditionError as refusal:  # on rank 0 only
        warn.warn(f"resize: {refusal}")
        fails = True
    began = time.monotonic()
    while peer.membership_version() == version and peer.size() != wanted:
        is_late = time.monotonic() > began + _MOST_SECONDS
        if peer.all_reduce_int_max(int(fails or is_late)):
            break
        time.sleep(_INTERVAL)
        peer.resize(progress=progress)
    return peer.membership_version() != version, peer.detached()


def propose(n: int) -> None:
    """Asks for another number of peers. One that there cannot be is a warning, as of KungFu."""
    try:
        peer.propose_new_size(n)
    except errors.FailedPreconditionError as refusal:
        warn.warn(f"propose_new_size: {refusal}")


def come_in_by_hooks() -> None:
    """From now on: this program trains in sessions, whose hook takes newcomers in."""
    global _by_hooks
    _by_hooks = True


def come_in() -> None:
    """Waits until the others take this peer in, if it is a newcomer to such a program."""
    if peer.launched() and peer.joining() and (config.run_directory() / _MARK).exists():
        peer.resize()


def comes_in(function: Callable[..., T]) -> Callable[..., T]:
    """Calls `come_in` before a function."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        come_in()
        return function(*args, **kwargs)

    return wrapped
