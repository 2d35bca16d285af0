"""Counters that are equal on all peers, because all peers take numbers in the same order."""

from __future__ import annotations

from typing import Any


class Ordinals:
    """A counter that starts at 0.

    Attributes:
        next: The next number. In a meeting all peers may set it to their largest.
    """

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """Returns the next number."""
        taken, self.next = self.next, self.next + 1
        return taken


# The algorithms that were used in this process.
algorithms = Ordinals()
# The elastic trainings of this process.
trainings = Ordinals()
# The trainings of this process that follow a `SizePlan`.
size_plans = Ordinals()
# The plans of datasets of one length (`data.even.Plan`).
plans = Ordinals()


def of_algorithms(group: Any) -> Ordinals:
    """The counter of the algorithms that were used in a `kungfu_tf.Group`, or among all (None)."""
    counter: Ordinals = algorithms if group is None else group.algorithms
    return counter
