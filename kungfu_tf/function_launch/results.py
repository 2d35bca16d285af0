"""What the caller makes of the ends of its children: results, or an error."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

from kungfu_tf import errors
from kungfu_tf.function_launch import channel, pickling
from kungfu_tf.function_launch.channel import Failure
from kungfu_tf.launcher.processes import peer_process


class Child(NamedTuple):
    """A child that has ended.

    Attributes:
        rank: Its rank.
        host: Its host.
        pid: Its process.
        code: Its exit code; negative if a signal has killed it; None: it is lost.
        record: What it has sent; None: nothing.
        notes: What else is known of its end, by lines.
    """

    rank: int
    host: str
    pid: int
    code: int | None
    record: bytes | memoryview | None
    notes: Sequence[str] = ()

    @property
    def who(self) -> str:
        return f"rank {self.rank} on {self.host} (pid {self.pid})"

    @property
    def failure(self) -> Failure | None:
        """How its function failed, if it did."""
        if self.record is None or self.record[:1] != channel.RAISED:
            return None
        return Failure(*pickle.loads(self.record[1:]))


def value_of(child: Child) -> Any:
    """The result of the function in a child that ended with code 0.

    Raises:
        PeerFailedError: If it has sent none.
        InvalidArgumentError: If it cannot be unpickled.
    """
    if child.record is None or child.record[:1] != channel.RETURNED:
        raise failed(child)
    try:
        return pickle.loads(child.record[1:])
    except Exception as error:
        raise errors.InvalidArgumentError(
            f"what rank {child.rank} returned cannot be unpickled here: {error}"
        ) from error


def failed(child: Child) -> errors.PeerFailedError:
    """The error for a child that ended without a result."""
    failure = child.failure
    if failure is not None:
        error = errors.PeerFailedError(f"{child.who}: {failure.summary}\n\n{failure.traceback}")
        error.__cause__ = pickling.load_exception(failure.pickled)
    else:
        when = "before" if child.record is None else "after"
        how = "lost" if child.code is None else peer_process.describe(child.code)
        said = f"{child.who}: {how} {when} its function returned"
        error = errors.PeerFailedError("\n".join([said, *child.notes]))
    error.rank, error.host = child.rank, child.host
    return error
