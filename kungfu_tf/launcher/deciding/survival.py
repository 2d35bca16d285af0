"""Decides which peers go on when others are lost, without processes or sockets.

A loss gives the job a new membership: the peers that are left, in their order. They enter it at
once, in the middle of what they do. A peer that ends before it has entered it is lost to the
others, even if it has finished.
"""

import signal
from collections.abc import Sequence

from kungfu_tf.launcher.deciding.membership import MOST_VERSIONS

# These come from the machine. Other signals, and exit codes, are errors that any peer could have.
_OF_THE_MACHINE = (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS)


class Survival:
    """The memberships of one job that loses peers.

    Attributes:
        version: The version of the newest list of members.
        members: The peers that take part, in rank order.

    Args:
        members: The peers that the job starts with, in rank order.
        least: The least number of peers with which the job goes on; None: it ends with any loss.
        outlives_errors: Whether a peer that ends with an error of the program is lost, too.
    """

    def __init__(
        self, members: Sequence[int], least: int | None, *, outlives_errors: bool = False
    ) -> None:
        self.version = 0
        self.members = list(members)
        self._least = least
        self._outlives_errors = outlives_errors
        self._entering: set[int] = set()

    def inherit(self, version: int, members: Sequence[int]) -> None:
        """Goes on from a list that another runner has decided on."""
        self.version, self.members = version, list(members)

    def ended(self, number: int, code: int) -> bool:
        """A process has ended. Returns whether the job goes on with a new membership without it."""
        if self._is_loss(number, code):
            return self.lost([number])
        if code == 0:
            self.members = [member for member in self.members if member != number]
        return False

    def lost(self, numbers: Sequence[int]) -> bool:
        """Members are lost. Returns whether the job goes on with a new membership without them."""
        left = [member for member in self.members if member not in numbers]
        is_enough = self._least is not None and len(left) >= max(1, self._least)
        if not is_enough or self.version == MOST_VERSIONS:
            return False
        self.version += 1
        self.members, self._entering = left, set(left)
        return True

    def entered(self, number: int, version: int) -> bool:
        """A peer has entered a membership. Returns whether all have, by that."""
        if version != self.version or number not in self._entering:
            return False
        self._entering.discard(number)
        return not self._entering

    def _is_loss(self, number: int, code: int) -> bool:
        if number not in self.members or len(self.members) == 1:
            return False
        if code == 0:
            return number in self._entering
        return self._outlives_errors or code in _OF_THE_MACHINE
