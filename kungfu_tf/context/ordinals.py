"""Numbers that are the same on all peers, because all take them in the same order."""

from __future__ import annotations


class Ordinals:
    """Counts from 0.

    Attributes:
        next: What is taken next. Where peers meet they may set it to the largest of all.
    """

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """The next one."""
        taken, self.next = self.next, self.next + 1
        return taken


# Of the algorithms that have been used in this process.
algorithms = Ordinals()
# Of the elastic trainings of this process.
trainings = Ordinals()
# Of the trainings of this process that follow a plan of how many peers there should be.
size_plans = Ordinals()
# Of the plans of datasets that were prolonged together.
plans = Ordinals()
