"""Whose peers can go over to others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kungfu_tf import errors


def check(who: str, algorithms: Iterable[Any]) -> None:
    """Raises if there is an algorithm whose peers do not meet in each step.

    Args:
        who: Who wants them to go over, for the message.
        algorithms: Of the wrapped optimizers of a training.

    Raises:
        FailedPreconditionError: It names the algorithm.
    """
    for algorithm in algorithms:
        if not algorithm.is_synchronous:
            raise errors.FailedPreconditionError(
                f"{who}: the peers of {type(algorithm).__name__} do not meet in each step: "
                "there is none after which all could go over to other peers. Take an optimizer "
                "that is synchronous, or a job that does not change its size, without this"
            )
