"""When connections between peers are made anew."""

import math
import time
from collections.abc import Set

from kungfu_tf.launcher.deciding.membership import Membership

WAIT = 0.1  # seconds in which a peer that was killed is known to have ended
LONGEST_WAIT = 3.2
_QUIET = 30.0  # seconds after which the waits begin anew


class Repair:
    """The next repair of connections between peers that live.

    A connection breaks, too, if one of its peers dies. So a repair waits for a moment, and only
    takes place if all peers live then. What breaks again and again is repaired after waits that
    double, and not at all after the longest of them.

    Attributes:
        due: The time.monotonic() from which on it may take place; infinite: there is none.
        since: When it was asked for.
    """

    def __init__(self) -> None:
        self.due = math.inf
        self.since = 0.0
        self._wait = WAIT
        self._ended = -math.inf
        self._version = 0
        self._members: list[int] = []

    def begin(self, membership: Membership) -> None:
        """A connection of peers of this membership broke."""
        if self.due < math.inf and self._version == membership.version:
            return
        self.since = time.monotonic()
        if self.since > self._ended + _QUIET:
            self._wait = WAIT
        if self._wait > LONGEST_WAIT:
            return
        self.due = self.since + self._wait
        self._version, self._members = membership.version, list(membership.members)

    def postpone(self) -> None:
        """It is not known yet whether all hosts can be reached."""
        self.due = time.monotonic() + WAIT

    def end(self, membership: Membership, living: Set[int]) -> bool:
        """Returns whether it shall take place: all peers of then live, and nothing has changed."""
        self.due = math.inf
        unchanged = (self._version, self._members) == (membership.version, membership.members)
        if not unchanged or not living >= {*self._members}:
            return False
        self._ended, self._wait = time.monotonic(), 2 * self._wait
        return True
