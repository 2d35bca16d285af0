"""How a job is ended: ever stronger requests, each after a time of grace."""

import signal
import time
from collections.abc import Callable


class Stop:
    """Signals that are sent to all peers, one after the other, until none is left.

    Args:
        first: the signal that is sent at once; None: the peers have a time of grace before SIGTERM.
        grace: seconds between two steps.
        send: sends a signal to every peer that runs.
    """

    def __init__(self, first: int | None, grace: float, send: Callable[[int], None]) -> None:
        self._grace = grace
        self._send = send
        self._due = time.monotonic()
        later = [number for number in (signal.SIGTERM, signal.SIGKILL) if number != first]
        self._steps: list[int | None] = [first, *later]
        self.signalled = False
        self.advance()

    @property
    def due(self) -> float | None:
        """When the next step is to be taken; None: there is none left."""
        return self._due if self._steps else None

    def advance(self) -> None:
        """Takes the next step if it is due."""
        now = time.monotonic()
        if not self._steps or now < self._due:
            return
        number = self._steps.pop(0)
        if number is not None:
            self.signalled = True
            self._send(number)
        self._due = now + self._grace

    def kill(self) -> None:
        """Skips to the last step."""
        self._steps = []
        self.signalled = True
        self._send(signal.SIGKILL)
