"""The failure that is the cause of the others."""

from __future__ import annotations

from collections.abc import Sequence

from kungfu_tf.function_launch.results import Child


def has_failed(child: Child) -> bool:
    """Whether the process did not end well, with a result."""
    return child.code != 0 or child.record is None or child.failure is not None


def is_consequence(child: Child) -> bool:
    """Whether the end of another peer may be the cause of this one's failure."""
    return child.failure is not None and child.failure.tells_of_another


def first(ended: Sequence[Child]) -> Child | None:
    """The child whose failure is the cause of the others', if one has failed.

    Args:
        ended: Children in the order in which their ends became known.
    """
    return min(filter(has_failed, ended), key=is_consequence, default=None)
