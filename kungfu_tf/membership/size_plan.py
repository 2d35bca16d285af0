"""The wanted number of peers at each step of a training."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kungfu_tf import config, peer
from kungfu_tf.context import ordinals
from kungfu_tf.ops.schedule import Schedule
from kungfu_tf.upstream.warn import warn

_log = logging.getLogger(__name__)


class SizePlan:
    """Asks for another number of peers when it is due.

    Args:
        size_at: A function from the number of steps made to the wanted number; or a schedule.

    Raises:
        ValueError: If the schedule cannot be understood. It says where, and why.
    """

    def __init__(self, size_at: str | Callable[[int], int]) -> None:
        self._size_at = Schedule(size_at).at if isinstance(size_at, str) else size_at
        self._wanted: int | None = None
        self._goes_on = False

    def begin(self) -> None:
        """Begins a training.

        If all peers were started anew, the program's first training continues one that has followed
        the plan before. It keeps the number of peers that was asked for last, perhaps from outside.
        """
        self._wanted = None
        self._goes_on = ordinals.size_plans.take() == 0 and config.RESTARTS.get() > 0

    def due(self, step: int) -> int | None:
        """Returns the number to ask for after a step; None if it stays. The same on all peers."""
        before, self._wanted = self._wanted, int(self._size_at(step))
        goes_on, self._goes_on = self._goes_on, False
        if self._wanted == before or goes_on:
            return None
        if before not in (None, peer.size()) and peer.is_root():
            _log.warning(
                "at step %d there should be %d peers: the %d of before have not come, there are %d",
                *(step, self._wanted, before, peer.size()),
            )
        return self._wanted

    def ask(self, step: int) -> None:
        """Lets rank 0 ask for the number that is due. All peers call it.

        Rank 0 is never a newcomer, so nobody has asked for the first number before.

        Raises:
            KungfuError: As from `kungfu_tf.propose_new_size`, on rank 0.
        """
        size = self.due(step)
        if size is not None and peer.is_root():
            peer.propose_new_size(size)


def warn_that_peers_stay(who: str) -> None:
    """Warns on rank 0 that `who` cannot change the number of peers in this job."""
    if peer.rank() == 0:
        warn(f"{who}: the peers of this job do not change; kungfu-run -w does that")
