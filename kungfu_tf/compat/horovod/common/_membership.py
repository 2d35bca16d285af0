"""Processes that come, go and fail, as programs of `horovod.elastic.run` see them.

A newcomer comes in by `hvd.init()`, and the others by the reset of `run`. So all of them meet next
in what the program does after its start, or after its reset.
"""

from __future__ import annotations

import sys
import time

from horovod.common import process_sets
from horovod.common.exceptions import HostsUpdatedInterrupt

from kungfu_tf import errors, peer
from kungfu_tf.membership import failing_together

__all__ = ["HostMessages", "change_over", "come_in", "leave"]

_LOST, _CHANGES = 1, 2  # what a process may know
_MOST_SECONDS = 30.0  # until the launcher says who is lost
_INTERVAL = 0.05


def come_in() -> None:
    """Waits until the others take this process in, if it is a newcomer."""
    if peer.launched() and peer.joining():
        peer.resize()


class HostMessages:
    """What a process knows of changes since this object was made.

    With `kungfu-run -w` a change waits until all processes go over to it. Without lost processes
    (`-on-failure survive`) the core has gone over already.
    """

    def __init__(self) -> None:
        self._version = _version()

    def empty(self) -> bool:
        """Whether this process knows of no change."""
        return not self._news()

    def check(self) -> None:
        """Looks for changes. All processes call it.

        Raises:
            HostsUpdatedInterrupt: On all of them, if one of them knows of a change.
        """
        if peer.launched() and (news := peer.all_reduce_int_max(self._news())):
            raise HostsUpdatedInterrupt(skip_sync=news == _LOST)

    def _news(self) -> int:
        if not peer.launched():
            return 0
        if peer.elastic() and peer.outdated():
            return _CHANGES
        return _LOST if _version() > self._version else 0


def leave(error: BaseException) -> None:
    """Lets the others leave their work, too, after an error."""
    if peer.launched() and not peer.interrupted():
        failing_together.interrupt("hvd.elastic.run", error)


def change_over() -> None:
    """Goes over to the newest list of processes. All of them call it.

    Raises:
        SystemExit: With code 0, if this process has left the list.
        KungfuError: If another process does not come.
    """
    process_sets.forget_all()
    if not peer.launched():
        return
    if peer.survives() or not peer.elastic():
        _begin_epoch()
    if peer.elastic():
        failing_together.enter_new_epoch(peer.resize)
    if peer.detached():
        sys.exit(0)


def _begin_epoch() -> None:
    """Begins a new epoch. If a process is lost just then, the survivors' list begins one."""
    version = _version()
    try:
        peer.begin_epoch()
    except errors.UnavailableError:
        deadline = time.monotonic() + _MOST_SECONDS
        while _version() == version:
            if not peer.survives() or time.monotonic() > deadline:
                raise
            time.sleep(_INTERVAL)


def _version() -> int:
    return peer.membership_version() if peer.launched() else 0
