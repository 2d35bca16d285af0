"""The steps after which peers meet that train apart between them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.context import graph_state


class Schedule:
    """The peers meet after each of the first `start` steps, and then after every `every`-th.

    It counts the steps, which are as many on all peers. Eager code and all functions share the
    counters. Each TF1 graph has its own.

    Args:
        every: The number of steps between two meetings, from 1.
        start: The number of steps of which each has a meeting, from 0.
    """

    def __init__(self, every: int, start: int = 0) -> None:
        self.every = every
        self.start = start
        self._counters = graph_state.State(
            lambda: [_counter("steps"), _counter("steps_at_meeting")]
        )

    @property
    def steps(self) -> Any:
        """A variable: the steps that were made."""
        return self._counters.get()[0]

    @property
    def steps_at_meeting(self) -> Any:
        """A variable: the steps that were made at the last meeting."""
        return self._counters.get()[1]

    def next_after(self, meeting: Any) -> Any:
        """The number of steps at the meeting that follows one, an int64 scalar.

        Args:
            meeting: The number of steps at a meeting, an int64 scalar.
        """
        one, every = (tf.constant(n, tf.int64) for n in (1, self.every))
        return meeting + tf.where(meeting < self.start, one, every)


def check_steps(name: str, value: Any, *, least: int) -> None:
    """Checks an argument that is a number of steps.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a number of steps, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, and is {value}")


def _counter(name: str) -> Any:
    return graph_state.variable(0, tf.int64, f"meetings/{name}")
