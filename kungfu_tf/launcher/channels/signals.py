"""Signals that the event loop can read from a pipe."""

import os
import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Batch systems and people send these to programs, for instance when their time is nearly over.
WARNING = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


class SignalPipe:
    """Within it, collects the signals that end a job, those for its peers, and SIGCHLD.

    A signal that was ignored when the launcher started (nohup, a background job of a script) stays
    ignored. For the main thread only.
    """

    def __init__(self) -> None:
        self._taken: list[int] = []

    def __enter__(self) -> "SignalPipe":
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._previous = {
            number: signal.signal(number, self._take)
            for number in (*ENDING, *WARNING, signal.SIGCHLD)
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN
        }
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        return self._reader

    def take(self) -> list[int]:
        """The signals since the last call, in order."""
        try:
            while os.read(self._reader, 4096):
                pass
        except BlockingIOError:
            pass
        taken, self._taken = self._taken, []
        return taken

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._taken.append(number)
