"""The caller's handle on its runner, whose output it passes on to this program's streams."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

_READ_SIZE = 1 << 16
_LONGEST_WAIT = 3600.0  # that the system call can express


class Relay:
    """A running runner. Only the caller's thread may use it.

    The children's output goes to the current `sys.stdout` and `sys.stderr`. In a notebook these are
    not files, but objects of the cell that runs in this thread.

    Args:
        command: The command of the runner.
        descriptors: The descriptors that it inherits.
        grace: How many seconds it takes at most to end its children when asked to.
    """

    def __init__(self, command: Sequence[str], descriptors: Sequence[int], *, grace: float) -> None:
        self._grace = grace
        self._discards = False
        # In its own session, so that it gets signals from a terminal or notebook only once: from
        # us.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._streams = {self._process.stdout: "stdout", self._process.stderr: "stderr"}
        self._begun = dict.fromkeys(self._streams, b"")  # the incomplete last line

    def run(self, deadline: float) -> bool:
        """Passes on output until the runner has ended; False if it had to be killed at `deadline`.

        An interrupt ends the job within `grace` seconds; another one ends it at once.
        """
        try:
            return self._until_the_end(deadline)
        except KeyboardInterrupt:
            self._end(signal.SIGINT)
            raise
        except BaseException:
            self._discards = True
            self._end(signal.SIGTERM)
            raise
        finally:
            self._process.kill()  # if it still runs; then the kernel and the sweeper end the job
            self._process.wait()
            for pipe in self._streams:
                pipe.close()

    def _end(self, number: int) -> None:
        """Asks the runner to end the job, and waits until it has."""
        deadline = time.monotonic() + self._grace
        while True:
            try:
                self._process.send_signal(number)
                self._until_the_end(deadline)
                return
            except KeyboardInterrupt:
                continue
            except Exception:  # the reader of our output has gone; the first error counts
                self._discards = True

    def _until_the_end(self, deadline: float) -> bool:
        """Passes on output until the runner has ended; False if it has not ended by `deadline`."""
        with selectors.DefaultSelector() as selector:
            for pipe in self._begun:
                selector.register(pipe, selectors.EVENT_READ, pipe)
            while self._begun:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                for key, _ in selector.select(min(left, _LONGEST_WAIT)):
                    if not self._read(key.data):
                        selector.unregister(key.fileobj)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace)
        return True

    def _read(self, pipe: IO[bytes]) -> bool:
        """Relays whole lines, so that the streams do not mix; False if there are no more."""
        data = os.read(pipe.fileno(), _READ_SIZE)
        lines, newline, self._begun[pipe] = (self._begun[pipe] + data).rpartition(b"\n")
        if not data:
            lines, newline = self._begun.pop(pipe), b""
        stream = getattr(sys, self._streams[pipe])
        if (lines or newline) and stream is not None and not self._discards:
            stream.write((lines + newline).decode(errors="replace"))
            stream.flush()
        return bool(data)
