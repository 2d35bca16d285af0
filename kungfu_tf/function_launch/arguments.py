"""Checks the arguments of a call that starts processes."""

from __future__ import annotations

import operator
from typing import Any

from kungfu_tf import errors, peer


def checked(
    caller: str,
    fn: Any,
    np: Any,
    timeout: Any,
    *,
    start_timeout: float = 0,
    restarts: int = 0,
) -> int:
    """The number of processes, as an int.

    Args:
        caller: The name of the call, for errors.
        fn: The function that the processes shall call.
        np: Their number.
        timeout: How many seconds they have; None: any number.
        start_timeout: How many seconds they have to start.
        restarts: How often they may be started anew.

    Raises:
        TypeError, ValueError: If an argument is invalid.
        FailedPreconditionError: If this process is a peer, and there are several others.
    """
    if not callable(fn):
        raise TypeError(f"{caller}: fn must be a function, not {fn!r}")
    try:
        np = operator.index(np)
    except TypeError:
        raise TypeError(f"{caller}: np must be a number of processes, not {np!r}") from None
    if np < 1:
        raise ValueError(f"{caller}: np must be at least 1, not {np}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"{caller}: timeout must be positive seconds, or None, not {timeout}")
    for name, number in (("start_timeout", start_timeout), ("restarts", restarts)):
        if not number >= 0:
            raise ValueError(f"{caller}: {name} must not be negative, as {number} is")
    if np > 1 and peer.launched():
        raise errors.FailedPreconditionError(
            f"{caller}: this process is already a peer of a job, and new processes would not "
            f"belong to it. Give the program to kungfu-run, or call {caller} in it, not both"
        )
    return np
