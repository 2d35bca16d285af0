"""Who takes part in a job whose size may change: what is decided, without processes or sockets.

A change takes three steps. Newcomers are started, and boot while the others train. When all of them
are ready the next membership is published: the peers of today in their order, then the newcomers;
or the first of today's where it is to be smaller. Newcomers hear of it when one of the others has
entered it: so nobody follows into a membership that those who train have no time left for. It is
over when all peers have entered it; until then no other one is published. What was proposed last
counts.
"""

import dataclasses
from collections.abc import Callable, Sequence

# The core counts memberships in 14 bits (ops/elastic/membership.h).
MOST_VERSIONS = (1 << 14) - 1


@dataclasses.dataclass(frozen=True)
class Actions:
    """What a decision leads to. Peers are known by the runner's numbers.

    Attributes:
        start: Starts one more peer, which is to join, and returns its number.
        stop: Ends a newcomer that is not needed.
        publish: Tells some peers (the last argument) who takes part from a version on.
        say: A line for the user.
    """

    start: Callable[[], int]
    stop: Callable[[int], None]
    publish: Callable[[int, Sequence[int], Sequence[int]], None]
    say: Callable[[str], None]


class Membership:
    """Decides on the changes of one job.

    Args:
        members: The peers that the job starts with, in rank order.
        slots: The most peers that there can be.
        actions: What it may do.
    """

    def __init__(self, members: Sequence[int], slots: int, actions: Actions) -> None:
        self.version = 0
        self.members = list(members)
        self._slots = slots
        self._actions = actions
        self._target = len(members)
        self._newcomers: dict[int, bool] = {}  # whether they are ready
        self._entering: set[int] = set()  # who has not entered the newest membership yet
        self._untold: list[int] = []  # its newcomers, while nobody has
        self._ending = False

    def propose(self, _rank: int, size: int) -> str | None:
        """A peer asks for so many. Returns why that cannot be, or None."""
        if size < 1:
            return f"{size} peers: a job has at least one"
        if size > self._slots:
            return f"{size} peers: there are {self._slots} slots"
        if self._ending:
            return "the job is ending"
        if self.version >= MOST_VERSIONS:
            return f"the job has changed {MOST_VERSIONS} times, as often as it can"
        self._target = size
        self._advance()
        return None

    def ready(self, rank: int) -> None:
        """A newcomer can be taken in."""
        if rank in self._newcomers:
            self._newcomers[rank] = True
            self._advance()

    def entered(self, rank: int, version: int) -> None:
        """A peer has gone over to a membership."""
        if version == self.version:
            untold, self._untold = self._untold, []
            if untold:
                self._actions.publish(version, self.members, untold)
            self._entering.discard(rank)
            self._advance()

    def awaits(self, rank: int) -> bool:
        """Whether this is a newcomer that has not been taken in."""
        return rank in self._newcomers or rank in self._untold

    def ended(self, rank: int, *, well: bool) -> bool:
        """A process has ended. Returns whether the job has lost one of its members by that."""
        self._entering.discard(rank)
        if self._newcomers.pop(rank, None) is not None:
            self._actions.say(f"newcomer {rank} has ended before it was taken in")
            self._target = len(self.members) + len(self._newcomers)
            self._advance()
            return False
        if rank not in self.members:
            self._advance()
            return False
        if well and not self._ending:
            self._ending = True
            self._dismiss(len(self._newcomers))
            for newcomer in self._untold:
                self._actions.stop(newcomer)
        return not well

    def _advance(self) -> None:
        """Does what is due towards the target."""
        if self._entering or self._ending:
            return
        self._dismiss(len(self.members) + len(self._newcomers) - self._target)
        while len(self.members) + len(self._newcomers) < self._target:
            self._newcomers[self._actions.start()] = False
        if all(self._newcomers.values()):
            self._publish([*self.members, *self._newcomers][: self._target])

    def _dismiss(self, surplus: int) -> None:
        for rank in list(self._newcomers)[::-1][: max(0, surplus)]:
            del self._newcomers[rank]
            self._actions.stop(rank)

    def _publish(self, members: list[int]) -> None:
        if members == self.members:
            return
        self.version += 1
        before, self.members = self.members, members
        self._entering = {*before, *members}
        self._untold = [rank for rank in members if rank in self._newcomers]
        self._newcomers.clear()
        self._actions.say(f"from now on {len(members)} peers")
        self._actions.publish(self.version, members, before)
