"""SIGTERM to a peer of a job that survives lost peers: it finishes its step before it leaves.

Kubernetes, Slurm and machines that are taken away send it some seconds before SIGKILL. The main
thread may wait in a step for another peer, and runs no Python then. So a thread reads from a pipe
that the signal has come, and asks the launcher at once:

- The others go on without this peer. It leaves when it comes to the end of its step.
- All peers have to end. Then they tell each other how many steps they have begun, and all end when
  they have made the most of these. Until it knows that number, no peer begins another step.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterator

from kungfu_tf import context, errors, peer
from kungfu_tf.membership.failing_together import LeaveTogether
from kungfu_tf.native import calls

TERMINATED = 128 + signal.SIGTERM


class LeftOnNotice(LeaveTogether, SystemExit):
    """Ends the program of a peer that has left the job in order, or with all others."""


class Notice:
    """What SIGTERM has asked of this peer. The steps that all make together are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_come = self._is_told = self._may_leave = False
        self._begun = 0
        self._last: int | None = None  # after how many steps all end; None: they do not
        self._knows = threading.Event()  # _last, or that it cannot be known

    @property
    def is_pending(self) -> bool:
        """Whether the signal has come."""
        return self._has_come

    @property
    def is_common(self) -> bool:
        """Whether all peers end after the same step."""
        return self._last is not None

    def count_from(self, steps: int) -> None:
        """From now on the steps after these are counted."""
        with self._lock:
            self._begun = steps

    def before_step(self, number: int | None = None) -> int | None:
        """Called before each step. The exit code, if the peer ends instead; None: it does not.

        With 0 this peer has left the others.

        Args:
            number: The step's, the same on all peers and higher than that of the step before.
                Default: one higher.
        """
        if self._may_leave and peer.leave():
            return 0
        with self._lock:
            number = self._begun + 1 if number is None else number
            goes_on = not self._is_told
            if goes_on:
                self._begun = number
        if goes_on:
            return None
        self._knows.wait()  # as long as an operation of the core may last
        if self._last is None or number > self._last:
            return TERMINATED
        self._begun = number
        return None

    def come(self) -> None:
        """The signal has come. Called by another thread than the training's, perhaps again."""
        self._has_come = True
        try:
            if self._is_told or peer.give_notice():
                self._may_leave = not self._is_told
                return
            with self._lock:
                self._is_told, self._may_leave = True, False
            self._last = calls.largest_of_all(self._begun, "fit/notice")
        except errors.KungfuError:  # the launcher or a peer is gone: each ends by itself
            self._is_told = True
        self._knows.set()


_current: Notice | None = None


@contextlib.contextmanager
def heeded() -> Iterator[Notice | None]:
    """Within it SIGTERM ends no step. None where it does: see `_may_heed`.

    If the signal has come and the peer has not left meanwhile, it ends the process afterwards.
    """
    global _current
    if _current is not None or not _may_heed():
        yield _current
        return
    notice = _current = Notice()
    try:
        with _thread_that_reads(notice):
            yield notice
    finally:
        _current = None
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if notice.is_pending and not peer.detached():
        os.kill(os.getpid(), signal.SIGTERM)


def _may_heed() -> bool:
    """Only in the main thread, and where the program has no handler of its own.

    A newcomer that nobody has taken in yet ends at once: it has no step that others need.
    """
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        and context.current().group is None
        and peer.survives()
        and not peer.joining()
    )


@contextlib.contextmanager
def _thread_that_reads(notice: Notice) -> Iterator[None]:
    """Within it a thread tells `notice` of each SIGTERM. It ends with the pipe that it reads."""
    _forget_in_children()
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    others = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)

    def read() -> None:
        with open(reader, "rb", buffering=0) as pipe:
            while numbers := pipe.read(64):
                if others >= 0:
                    with contextlib.suppress(OSError):
                        os.write(others, numbers)
                if signal.SIGTERM in numbers:
                    notice.come()

    threading.Thread(target=read, name="kungfu_tf notice", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(others)
        os.close(writer)


@functools.cache
def _forget_in_children() -> None:
    """A process that is forked from now on is no peer: SIGTERM ends it."""

    def forget() -> None:
        global _current
        if _current is not None:
            _current = None
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=forget)
