"""Stops all peers of a host by stronger and stronger signals, each after a time of grace."""

import signal
import time
from collections.abc import Callable


class Shutdown:
    """Sends signals to all peers, one after the other, until none is left.

    Args:
        first: The signal to send at once; None: the peers have a time of grace before SIGTERM.
        grace: Seconds between two steps.
        send: Sends a signal to every peer that runs.

    Attributes:
        due: The time.monotonic() of the next step.
        hurried: Whether SIGKILL came before its time.
    """

    def __init__(self, first: int | None, grace: float, send: Callable[[int], None]) -> None:
        self._grace = grace
        self._send = send
        later = [number for number in (signal.SIGTERM, signal.SIGKILL) if number != first]
        self._steps: list[int | None] = [first, *later]
        self.hurried = False
        self.due = time.monotonic()
        self.advance()

    @property
    def exhausted(self) -> bool:
        """Whether SIGKILL was sent, and the kernel has not ended all processes in time."""
        return not self._steps and time.monotonic() >= self.due

    def advance(self) -> None:
        """Takes the next step, if there is one and it is due."""
        if self._steps and time.monotonic() >= self.due:
            number = self._steps.pop(0)
            if number is not None:
                self._send(number)
            self.due = time.monotonic() + self._grace

    def kill(self) -> None:
        """Goes to the last step at once."""
        self.hurried = True
        self._steps = [signal.SIGKILL]
        self.due = time.monotonic()
        self.advance()
