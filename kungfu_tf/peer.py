"""This process as a peer: who it is, who the others are, and meeting them.

The first call starts the peer. Without the launcher the process is one of one.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from kungfu_tf import _lib, errors

__all__ = [
    "alone",
    "barrier",
    "epoch",
    "host_count",
    "init",
    "is_root",
    "launched",
    "local_rank",
    "local_size",
    "rank",
    "run_on_root",
    "shutdown",
    "size",
    "uid",
]

T = TypeVar("T")


def launched() -> bool:
    """Whether a launcher started this process. If not, it is one of one for ever."""
    return bool(os.environ.get("KUNGFU_SELF"))


def alone() -> bool:
    """Whether this process is one of one for ever, so that programs can leave out all exchange.

    Membership is static: whoever was launched alone stays alone.
    """
    return not launched() or size() == 1


def init() -> None:
    """Starts the peer. Optional: whatever needs the peer starts it.

    Raises:
        KungfuError: the environment that the launcher left cannot be understood, or the peer's
            sockets cannot be opened.
    """
    _lib.check(_lib.core().kungfu_init())


def shutdown() -> None:
    """Ends the peer: what is pending fails, and what comes later. Happens by itself at exit."""
    _lib.check(_lib.core().kungfu_shutdown())


def rank() -> int:
    """This peer's position among all peers, from 0."""
    return _number("kungfu_rank")


def size() -> int:
    """The number of peers."""
    return _number("kungfu_size")


def local_rank() -> int:
    """This peer's position among the peers of its host, from 0."""
    return _number("kungfu_local_rank")


def local_size() -> int:
    """The number of peers on this host."""
    return _number("kungfu_local_size")


def host_count() -> int:
    """The number of hosts that have peers."""
    return _number("kungfu_host_count")


def epoch() -> int:
    """The number of the session: one higher with each change of who takes part."""
    return _number("kungfu_epoch")


def uid() -> int:
    """A number of 63 bits that no other peer of the job has, the same as long as the peer lives."""
    init()
    who = os.environ.get("KUNGFU_SELF") or f"pid {os.getpid()}"
    text = f"{os.environ.get('KUNGFU_JOB_ID', '')}/{os.environ.get('KUNGFU_EPOCH', '')}/{who}"
    data = text.encode()
    return _lib.core().kungfu_digest(data, len(data)) >> 1


def is_root() -> bool:
    """Whether this peer has rank 0."""
    return rank() == 0


def run_on_root(fn: Callable[[], T]) -> T | None:
    """Calls `fn` on the peer with rank 0 only. The others do not wait: `barrier` does that.

    Args:
        fn: A function without arguments.

    Returns:
        What `fn` returned on rank 0, None elsewhere.
    """
    return fn() if is_root() else None


def barrier(*, name: str = "barrier") -> None:
    """Returns when all peers have called it.

    Args:
        name: The same on every peer. Calls of one name are matched in their order.

    Raises:
        DeadlineExceededError: a peer did not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: a peer is gone.
    """
    _Barrier().run(_lib.Options(name=name.encode()))


class _Barrier:
    """One call of kungfu_barrier. The core holds a pointer to it until it is done."""

    _numbers = itertools.count(1)
    _pending: dict[int, _Barrier] = {}

    def __init__(self) -> None:
        self._done = threading.Event()
        self._code = 0
        self._message = ""

    def run(self, options: _lib.Options) -> None:
        number = next(self._numbers)
        self._pending[number] = self
        operation = _lib.core().kungfu_barrier(ctypes.byref(options), self._on_done, number)
        try:
            self._done.wait()  # the core has the deadline
        except KeyboardInterrupt:
            _lib.core().kungfu_cancel(operation, 0, b"")
            raise
        if self._code != 0:
            raise errors.from_code(self._code, self._message)

    @staticmethod
    @_lib.Done
    def _on_done(number: int, code: int, message: bytes | None) -> None:
        call = _Barrier._pending.pop(number)
        call._code, call._message = code, (message or b"").decode(errors="replace")
        call._done.set()


def _number(function: str) -> int:
    value: int = getattr(_lib.core(), function)()
    if value < 0:
        _lib.check(_lib.core().kungfu_init())  # says why there is no peer
    return value
