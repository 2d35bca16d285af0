"""Asking for as many peers as a plan has for a step."""

from __future__ import annotations

from collections.abc import Callable

from kungfu_tf import peer


class Asking:
    """Asks when the plan's number becomes another one, and at first, wherever a run begins.

    Args:
        size_at: The plan: how many peers there should be when so many steps have been made.
    """

    def __init__(self, size_at: Callable[[int], int]) -> None:
        self._size_at = size_at
        self._wanted: int | None = None

    def begin(self) -> None:
        """Another training begins."""
        self._wanted = None

    def look(self, step: int) -> None:
        """So many steps have been made. All peers call it, and rank 0 asks.

        Rank 0 is no newcomer: what it asks for first, nobody has asked for before in its job.

        Raises:
            KungfuError: As from `kungfu_tf.propose_new_size`, on rank 0.
        """
        before, self._wanted = self._wanted, int(self._size_at(step))
        if self._wanted != before and peer.is_root():
            peer.propose_new_size(self._wanted)
