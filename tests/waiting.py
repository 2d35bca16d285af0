"""Waiting for what a test cannot be told of."""

import time
from collections.abc import Callable

DEADLINE = 240.0  # generous: only a test that fails ever waits so long


def until(condition: Callable[[], object], what: Callable[[], str]) -> None:
    """Polls until something is true; an error that says what was not, if it takes too long."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what()}"
        time.sleep(0.01)
