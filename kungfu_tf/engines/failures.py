"""The failure that is the cause of the others."""

from __future__ import annotations

from collections.abc import Sequence

from kungfu_tf import errors
from kungfu_tf.function_launch.results import Child

_LONGEST = 300  # characters of a line in a message


def has_failed(child: Child) -> bool:
    """Whether the process did not end well, with a result."""
    return child.code != 0 or child.record is None or child.failure is not None


def is_consequence(child: Child) -> bool:
    """Whether the end of another peer may be the cause of this one's failure."""
    return child.failure is not None and child.failure.tells_of_another


def lost(rank: int, host: str, pid: int, reason: str) -> Child:
    """A child whose worker the engine has lost, for this reason."""
    lines = [f"  | {line[:_LONGEST]}" for line in reason.splitlines() if line[:1] != "\t"]
    return Child(rank, host, pid, None, None, [errors.linked("engine-lost", "\n".join(lines))])


def first(ended: Sequence[Child]) -> Child | None:
    """The child whose failure is the cause of the others', if one has failed.

    Args:
        ended: Children in the order of their ends, as the caller learned of them.
    """
    return min(filter(has_failed, ended), key=is_consequence, default=None)
