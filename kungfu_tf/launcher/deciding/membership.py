"""Decides which peers take part in a job that changes or loses some, without processes or sockets.

Each list of members has a version, one higher than that of the list before.

A change takes three steps.

1. Newcomers are started, and boot while the others train.
2. When all newcomers are ready, the next membership is published: the present peers in their
   order, then the newcomers. A smaller one has the first of the present peers, or those that are
   named. Newcomers hear of it when one of the others has entered it, since the others may finish
   before.
3. The change is over when all peers have entered the membership. Until then no other one is
   published, with one exception: a newcomer ends before it has heard of this one. Then no peers
   can have met in it. The next membership, without that newcomer, replaces it. `since` is the
   first version that is replaced. A peer that has entered one of those enters the next one from
   there.

If some peers leave and others come, they leave first. The last proposal counts.

If members are lost, the next list has those that are left, in their order. They enter it at once,
in the middle of their work. If a change is under way, its newcomers are left out as long as they
have not heard of it, and taken in later. Peers that leave by it leave at once. `since` of the list
is that of the change. A peer that ends before it has entered such a list is lost to the others,
even if it has finished.

A lost peer is replaced by a newcomer as often as the job allows. Otherwise the wanted number of
members becomes smaller by the lost ones, and the next proposal counts as it is.

Spares are newcomers beyond the wanted number. They are started, and wait until one is missing.
"""

import dataclasses
import signal
from collections.abc import Callable, Sequence

from kungfu_tf.launcher.options.plural import plural, there_are

# The core counts memberships in 14 bits (ops/elastic/membership.h).
MOST_VERSIONS = (1 << 14) - 1

# These come from the machine, or from whoever takes it away. Other signals, and exit codes, are
# errors that any peer could have.
OF_THE_MACHINE = (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGTERM)


@dataclasses.dataclass(frozen=True)
class Actions:
    """The actions that follow from decisions. Peers are known by the runner's numbers.

    Attributes:
        start: Starts a newcomer, and returns its number; None: it cannot be started now. The
            argument is a wished address, or None.
        stop: Stops a newcomer that is not needed.
        may_change: Whether the job may have a list of this version; if not, it ends.
        publish: Tells some peers (the last argument) which peers take part from a version on. The
            second argument is the first version of the change that the list belongs to.
        say: Prints a line for the user.
    """

    start: Callable[[str | None], int | None]
    stop: Callable[[int], None]
    may_change: Callable[[int], bool]
    publish: Callable[[int, int, Sequence[int], Sequence[int]], None]
    say: Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Losses:
    """Which losses of members the others survive.

    Attributes:
        least: The least number of peers with which the job goes on; None: it ends with any loss.
        outlives_errors: Whether a peer that ends with an error of the program is lost, too.
        replaced: How many lost peers are replaced at most.
        spares: How many newcomers wait for that.
    """

    least: int | None = None
    outlives_errors: bool = False
    replaced: float = 0
    spares: int = 0


class Membership:
    """Decides on the changes of one job.

    Attributes:
        version: The version of the newest list of members.
        since: The first version of the newest change.
        members: The peers that take part, in rank order.
        target: The wanted number of members.
        dissolved: Whether all peers leave.

    Args:
        members: The peers that the job starts with, in rank order.
        slots: The largest number of peers.
        actions: The actions that follow from decisions.
        losses: The losses that the job survives.
    """

    def __init__(
        self,
        members: Sequence[int],
        slots: int,
        actions: Actions,
        losses: Losses = Losses(),
    ) -> None:
        self.version = self.since = 0
        self.members = list(members)
        self._slots = slots
        self._actions = actions
        self._losses = losses
        self._replaced = 0  # how many were
        self.target = len(members)
        self._staying: set[int] | None = None  # the peers to keep; None: the first ones
        self._wishes: list[str] = []  # addresses for newcomers that have not been started
        self._newcomers: dict[int, bool] = {}  # whether they are ready
        self._before: list[int] = []  # the members before the newest change, until all know of it
        self._entering: set[int] = set()  # peers that have not entered the newest list yet
        self._at_once = False  # they enter it in the middle of their work
        self._untold: list[int] = []  # its newcomers, until a peer has entered it
        self.dissolved = False
        self._ending = False

    def inherit(self, version: int, members: Sequence[int]) -> None:
        """Goes on from a list that another runner has decided on. No peer is coming or leaving."""
        self.version, self.members = version, list(members)
        self.target = len(members)

    @property
    def engaged(self) -> list[int]:
        """The members and the newcomers."""
        return [*self.members, *self._newcomers]

    @property
    def is_settled(self) -> bool:
        """Whether the number of members is the wanted one."""
        return len(self.members) == self.target

    @property
    def is_complete(self) -> bool:
        """Whether as many members as are wanted train together."""
        return self.is_settled and not self._entering

    def propose(self, size: int) -> str | None:
        """Takes a proposal of a number of peers. Returns why it is refused, or None."""
        return self._propose(size, None, [])

    def propose_members(self, staying: Sequence[int], wishes: Sequence[str]) -> str | None:
        """Takes a proposal of peers that stay, and of newcomers.

        Args:
            staying: The members and newcomers that stay.
            wishes: The wished address of each other newcomer.

        Returns:
            Why it is refused, or None.
        """
        if not set(staying) & set(self.members):
            return "none of today's peers would stay, and no other peer knows the model"
        return self._propose(len(staying) + len(wishes), set(staying), list(wishes))

    def limit(self, slots: int) -> None:
        """Limits the number of peers from now on."""
        self._slots = slots
        self.target = min(self.target, slots)

    def _propose(self, size: int, staying: set[int] | None, wishes: list[str]) -> str | None:
        refusal = self._refusal(size)
        if refusal is None:
            self.target, self._staying, self._wishes = size, staying, wishes
            self._advance()
        return refusal

    def dissolve(self, size: int) -> str | None:
        """`propose` for a job that changes by starting all peers anew: all members leave."""
        refusal = self._refusal(size)
        if refusal is None:
            self.target = size
        if refusal is None and not self.dissolved and size != len(self.members):
            if not self._actions.may_change(self.version + 1):
                return None
            self.dissolved = self._ending = True
            self.version = self.since = self.version + 1
            before, self.members = self.members, []
            self._actions.say(f"all peers leave; the job starts anew with {size}")
            self._actions.publish(self.version, self.since, [], before)
        return refusal

    def _refusal(self, size: int) -> str | None:
        if size < 1:
            return f"{plural(size, 'peer')}: a job has at least one"
        if size > self._slots:
            return f"{plural(size, 'peer')}: {there_are(self._slots, 'slot')}"
        if self._ending and not self.dissolved:
            return "the job is ending"
        if self.version >= MOST_VERSIONS:
            return f"the job has changed {MOST_VERSIONS} times, as often as it can"
        return None

    def ready(self, rank: int) -> None:
        """A newcomer can be taken in."""
        if rank in self._newcomers:
            self._newcomers[rank] = True
            self._advance()

    def entered(self, rank: int, version: int) -> bool:
        """A peer has changed over to a membership.

        Returns:
            Whether, by that, all members go on without those that were lost.
        """
        if version != self.version:
            return False
        untold, self._untold = self._untold, []
        if untold:
            self._actions.publish(version, self.since, self.members, untold)
        goes_on = self._at_once and self._entering == {rank}
        self._entering.discard(rank)
        self._advance()
        return goes_on

    def is_lost(self, rank: int, code: int) -> bool:
        """Whether a process that has ended is a loss which the others may survive."""
        if not self.is_involved(rank) or self._losses.least is None or len(self.members) == 1:
            return False
        if code == 0:
            return self._at_once and rank in self._entering
        return self._losses.outlives_errors or code in OF_THE_MACHINE

    def is_involved(self, rank: int) -> bool:
        """Whether others may wait for this peer: a member, or one of before that may not know."""
        return rank in [*self.members, *self._before] and rank not in self._untold

    def may_lose(self, ranks: Sequence[int]) -> bool:
        """Whether enough members are left without some peers."""
        left = [member for member in self._known if member not in ranks]
        is_enough = self._losses.least is not None and len(left) >= max(1, self._losses.least)
        return is_enough and self.version < MOST_VERSIONS

    @property
    def _known(self) -> list[int]:
        """The members, without newcomers that have not heard of it."""
        return [member for member in self.members if member not in self._untold]

    def lose(self, ranks: Sequence[int]) -> list[int]:
        """Goes on without some peers.

        Returns:
            The peers to tell of the new list of members; none: the job ends.
        """
        if not self.may_lose(ranks):
            return []
        before = [*dict.fromkeys([*self.members, *self._before])]
        present = [rank for rank in before if rank not in ranks and rank not in self._untold]
        known = self._known
        left = [member for member in known if member not in ranks]
        self._newcomers = dict.fromkeys(self._untold, True) | self._newcomers
        self._untold = []
        surplus = max(0, len(known) + len(self._newcomers) - self.target - self._spares)
        missing = max(0, len(known) - len(left) - surplus)
        self.target = max(1, self.target - missing + self._replace(missing))
        self.version += 1
        self.members, self._entering, self._at_once = left, set(left), True
        self._before = [member for member in self._before if member not in ranks]
        return present

    def _replace(self, missing: int) -> int:
        """How many of the peers that are missing are replaced."""
        replaced = int(min(missing, self._losses.replaced - self._replaced))
        self._replaced += replaced
        return replaced

    def replace_no_more(self) -> None:
        """From now on neither lost peers nor spares are replaced."""
        self._losses = dataclasses.replace(self._losses, replaced=self._replaced)

    def resume(self) -> None:
        """Starts the newcomers that could not be started before."""
        self._advance()

    def awaits(self, rank: int) -> bool:
        """Whether this peer is a newcomer that has not been taken in."""
        return rank in self._newcomers or rank in self._untold

    def is_booting(self, rank: int) -> bool:
        """Whether this peer is a newcomer that is not ready yet."""
        return self._newcomers.get(rank) is False

    def has_met(self, rank: int) -> bool:
        """Whether other peers train with this peer."""
        return rank in self.members and rank not in self._untold

    def ended(self, rank: int, *, finished: bool) -> bool:
        """A process has ended. Returns whether the job has lost one of its members by that."""
        self._entering.discard(rank)
        unmet = rank in self._untold and not self._ending and self.version < MOST_VERSIONS
        if unmet:
            self.members = [member for member in self.members if member not in self._untold]
            self._newcomers = dict.fromkeys(self._untold, True) | self._newcomers
        if self._newcomers.pop(rank, None) is not None:
            self._actions.say(f"newcomer {rank} has ended before it was taken in")
            if not self._replace(1):
                present = len(self.members) + len(self._newcomers)
                self.target = max(len(self._remaining()), min(self.target, present))
            if unmet:
                self._publish([*self.members, *self._chosen], since=self.since)
            self._advance()
            return False
        if rank not in self.members:
            self._advance()
            return False
        if finished:
            self.members = [member for member in self.members if member != rank]
        if finished and not self._ending:
            self._ending = True
            self._dismiss(len(self._newcomers))
            for newcomer in self._untold:
                self._actions.stop(newcomer)
        return not finished

    def _remaining(self) -> list[int]:
        """The members that stay."""
        staying = self._staying
        return [m for m in self.members if staying is None or m in staying][: self.target]

    def _advance(self) -> None:
        """Takes the next steps towards the target."""
        if self._entering:
            return
        self._before, self._at_once = [], False
        if self._ending:
            return
        remaining = self._remaining()
        wanted = self.target + self._spares
        self._dismiss(len(remaining) + len(self._newcomers) - wanted)
        if remaining != self.members:
            self._publish(remaining)
            return
        while len(self.members) + len(self._newcomers) < wanted:
            newcomer = self._actions.start(self._wishes[0] if self._wishes else None)
            if newcomer is None:
                break
            self._wishes[:1] = []
            self._newcomers[newcomer] = False
            if self._staying is not None:
                self._staying.add(newcomer)
        chosen = self._chosen
        if chosen and all(self._newcomers[newcomer] for newcomer in chosen):
            self._publish([*self.members, *chosen])

    @property
    def _spares(self) -> int:
        """How many newcomers beyond the wanted number of members there should be."""
        return int(min(self._losses.spares, self._losses.replaced - self._replaced))

    @property
    def _chosen(self) -> list[int]:
        """The newcomers to be taken in, which are missing; first those that are ready."""
        missing = max(0, self.target - len(self.members))
        ready = [newcomer for newcomer, is_ready in self._newcomers.items() if is_ready]
        return [*dict.fromkeys([*ready, *self._newcomers])][:missing]

    def _dismiss(self, surplus: int) -> None:
        """Stops newcomers: those that need not stay, then the last of the others."""
        unwanted = [n for n in self._newcomers if self._staying and n not in self._staying]
        wanted = [n for n in self._newcomers if n not in unwanted][::-1]
        for rank in unwanted + wanted[: max(0, surplus - len(unwanted))]:
            del self._newcomers[rank]
            self._actions.stop(rank)

    def _publish(self, members: list[int], *, since: int | None = None) -> None:
        if not self._actions.may_change(self.version + 1):
            return
        self.version += 1
        self.since = self.version if since is None else since
        before, self.members = self.members, members
        self._before, self._entering, self._at_once = before, {*before, *members}, False
        self._untold = [rank for rank in members if rank in self._newcomers]
        for rank in self._untold:
            del self._newcomers[rank]
        self._actions.say(f"from now on {plural(len(members), 'peer')}")
        self._actions.publish(self.version, self.since, members, before)
