"""How long the launcher waits for the readers of its output."""

import math
import signal
import time
from collections.abc import Callable

from kungfu_tf.launcher.channels.signals import ENDING, WARNING, SignalPipe

TIMED_OUT = 124


class OutputWait:
    """A wait without limit, until the end is asked for. Then it lasts for a time of grace.

    Args:
        code: The exit code of the job. If it is 0, the reason of the end determines it.
        ending: Whether the end has been asked for already.
        signals: The signals that this process gets.
        time_limit: When the job must be over, as time.monotonic().
        grace: The time of grace in seconds.
        say: Prints a line for the user.
        lost: The name of what is dropped after it, for messages.
        warn: Called with a signal that does not end the job.
    """

    def __init__(
        self,
        code: int,
        *,
        ending: bool,
        signals: SignalPipe,
        time_limit: float,
        grace: float,
        say: Callable[[str], None],
        lost: str = "output that is not read",
        warn: Callable[[int], None] = lambda _number: None,
    ) -> None:
        self.code = code
        self._signals = signals
        self._time_limit = time_limit
        self._grace = grace
        self._say = say
        self._lost = lost
        self._warn = warn
        self._deadline = time.monotonic() + grace if ending else math.inf

    @property
    def ending(self) -> bool:
        """Whether the end has been asked for."""
        return self._deadline < math.inf

    @property
    def left(self) -> float | None:
        """Seconds until `over` may change by time; None: it does not."""
        due = self._deadline if self.ending else self._time_limit
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def over(self) -> bool:
        """Whether the output that the readers have not taken must be dropped now."""
        for number in self._signals.take():
            if number in ENDING:
                self.end(signal.Signals(number).name, 128 + number)
            elif number in WARNING:
                self._warn(number)
        if self._deadline == math.inf and time.monotonic() >= self._time_limit:
            self.end("-timeout", TIMED_OUT)
        return time.monotonic() >= self._deadline

    def end(self, why: str, code: int) -> None:
        """Asks for the end. The second time the wait is over at once."""
        if self._deadline < math.inf:
            self._deadline = 0.0
            return
        self.code = self.code or code
        self._deadline = time.monotonic() + self._grace
        self._say(f"{why}: {self._lost} within {self._grace:g} s is dropped")
