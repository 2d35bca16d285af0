"""Schedules as text: "32:100,64:200" is 32 for 100 steps, then 64 from there on."""

from __future__ import annotations


class Schedule:
    """Numbers, each for some steps; the last one stays.

    Args:
        text: Pairs "number:steps", separated by commas.

    Attributes:
        parts: Pairs of a number and its steps.

    Raises:
        ValueError: If it cannot be parsed; it says where, and why.
    """

    def __init__(self, text: str) -> None:
        self.parts: list[tuple[int, int]] = []
        place = 0
        for part in text.split(","):
            numbers = part.split(":")
            where = f"schedule {text!r}, at character {place + 1}, {part!r}"
            if len(numbers) != 2 or not all(n.strip().isdecimal() for n in numbers):
                raise ValueError(f"{where}: that is not size:steps, as 32:100")
            size, steps = map(int, numbers)
            if size < 1 or steps < 1:
                raise ValueError(f"{where}: sizes and steps begin with 1")
            self.parts.append((size, steps))
            place += len(part) + 1

    def at(self, step: int) -> int:
        """The number for a step; steps count from 0."""
        for size, steps in self.parts:
            if step < steps:
                return size
            step -= steps
        return self.parts[-1][0]
