"""Lets the peers of a training session agree after each step to continue.

While the hooks of a peer are at work (rank 0 writes a checkpoint, or evaluates), the others wait
for it here. That may take any time, so a thread tells the others that the peer is busy.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import ops, peer

PULSE = 2.0  # seconds


class Reason(enum.IntEnum):
    """Why a peer does not continue."""

    NONE = 0
    END_OF_DATA = 1
    STOP = 2
    NAN = 3
    LEFT = 4
    FAILED_BY_NAN = 5


_BECAUSE = {
    Reason.END_OF_DATA: "has no more data",
    Reason.STOP: "asks to stop",
    Reason.NAN: "asks to stop, because its loss is NaN",
    Reason.LEFT: "has left its session",
    Reason.FAILED_BY_NAN: "has a loss that is NaN",
}

_GO, _STOP, _BUSY = range(3)


class Work:
    """The work of this peer's hooks between two agreements."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """This peer is busy from now on."""
        self._since = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="kungfu-busy", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """This peer is no longer busy."""
        with self._lock:
            self._since = None

    def _beat(self) -> None:
        while True:
            time.sleep(PULSE)
            with self._lock:
                if self._since is not None and time.monotonic() - self._since >= PULSE:
                    try:
                        _meet(_BUSY)
                    except Exception:  # the peers get the error when they meet next
                        self._since = None


work = Work()


def all_go_on(reason: Reason) -> bool:
    """Whether no peer has a reason to stop. All peers must call it."""
    work.end()
    while (answer := _meet(_STOP if reason else _GO)) == _BUSY:
        pass
    return answer == _GO


def reasons(mine: Reason) -> list[Reason]:
    """The reasons of all peers, by rank. All peers must call it."""
    with eager.eager_mode():
        gathered = ops.all_gather(np.uint8(mine), name="session/reasons").numpy()
    return [Reason(reason) for reason in gathered]


def from_root(values: Iterable[int]) -> list[int]:
    """Rank 0's integers, on every peer."""
    with eager.eager_mode():
        sent = ops.broadcast(np.array(list(values), np.int64), name="session/from_root")
    return [int(value) for value in sent.numpy()]


def cause(error: Any) -> Any:
    """The cause of an error, which may only say that another peer has given up a collective.

    Then the step of that peer has failed, so it will interrupt the epoch: this one waits for that.
    """
    if not isinstance(error, tf.errors.CancelledError):
        return error
    try:
        with eager.eager_mode():
            ops.barrier(name="session/cause")
    except tf.errors.OpError as told:
        return told
    return error


def explained(all_reasons: list[Reason]) -> str:
    """The peers that stop, and why: "rank 1 (127.0.0.1:10001) has no more data"."""
    shown = []
    for reason, because in _BECAUSE.items():
        ranks = [rank for rank, other in enumerate(all_reasons) if other == reason]
        if ranks:
            shown.append(f"{peer.names_of(ranks)} {because}")
    return "; ".join(shown)


def _meet(answer: int) -> int:
    with eager.eager_mode():
        return int(ops.all_reduce(np.uint8(answer), op="max", name="session/agreement"))
