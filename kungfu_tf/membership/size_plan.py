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
    """Says when the wanted number changes, and what it is at the beginning of a training.

    Args:
        size_at: A function from the number of steps made to the wanted number; or a schedule.

    Raises:
        ValueError: If the schedule cannot be understood: where, and why.
    """

    def __init__(self, size_at: str | Callable[[int], int]) -> None:
        self._size_at = Schedule(size_at).at if isinstance(size_at, str) else size_at
        self._wanted: int | None = None
        self._goes_on = False

    def begin(self) -> None:
        """A training begins to follow it.

        If all peers were started anew, the first training of the program has followed the plan
        before. Then the number of peers is the one that was asked for last, perhaps from outside.
        """
        self._wanted = None
        self._goes_on = ordinals.size_plans.take() == 0 and config.RESTARTS.get() > 0

    def due(self, step: int) -> int | None:
        """Returns the number to ask for after so many steps; None: nothing new is due.

        On all peers alike.
        """
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
        """Asks for the number that is due. All peers call it, and rank 0 asks.

        Rank 0 is no newcomer: the first number of its training has not been asked for before.

        Raises:
            KungfuError: As from `kungfu_tf.propose_new_size`, on rank 0.
        """
        size = self.due(step)
        if size is not None and peer.is_root():
            peer.propose_new_size(size)


def warn_that_peers_stay(who: str) -> None:
    """Warns that a class cannot change the number of peers in this job. Rank 0 says it."""
    if peer.rank() == 0:
        warn(f"{who}: the peers of this job do not change; kungfu-run -w does that")
