"""Decides for all hosts which peers start and take part, and when the job is over."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence

from kungfu_tf.launcher.channels.control import Answer
from kungfu_tf.launcher.deciding.cooldown import Cooldown
from kungfu_tf.launcher.deciding.director import LOST, Host, Rules
from kungfu_tf.launcher.deciding.membership import OF_THE_MACHINE, Actions, Losses, Membership
from kungfu_tf.launcher.deciding.newest_loss import NewestLoss
from kungfu_tf.launcher.deciding.repair import Repair
from kungfu_tf.launcher.deciding.wishes import Wishes
from kungfu_tf.launcher.document import worker_addresses
from kungfu_tf.launcher.document.config_source import Source
from kungfu_tf.launcher.options.plural import plural, there_are
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.hosts import Host as Place
from kungfu_tf.launcher.placing.hosts import IPAddress
from kungfu_tf.launcher.processes import peer_process

CANNOT_START = (126, 127)

_TERMINATED = 128 + signal.SIGTERM
_STATIC = "the peers of this job do not change: start it with kungfu-run -w"


class Leader:
    """Decides for all hosts.

    A job without `rules.watch` has a membership that never changes.

    Args:
        cluster: The cluster with which the job starts.
        hosts: The hosts that it decides for, by their addresses.
        rules: The rules of the decisions.
        say: Prints a line for the user.

    Attributes:
        source: A document, besides the peers, that may ask for a number of peers; None: there is
            none.
    """

    def __init__(
        self,
        cluster: Cluster,
        hosts: Mapping[IPAddress, Host],
        rules: Rules,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.code = 0
        self.again: int | None = None
        self.recovering = False
        self.early_failure: int | None = None
        self._rules = rules
        self._cluster = cluster
        self._hosts = hosts
        self._say = say
        peers = [peer for peer in cluster.peers if peer.address in hosts]
        self._names = {peer.rank: str(peer) for peer in peers}
        self._places = {peer.rank: peer.address for peer in peers}
        self._next = len(cluster.peers)
        self._rooms = {host.address: host.slots for host in cluster.hosts}
        self._living = set(self._names)
        self._departed: set[int] = set()  # the peers that have left so that all start anew
        self._ending = False
        self.source: Source | None = None
        self._wishes = Wishes()
        self._warnings: dict[int, int] = {}  # how often each signal was handed on
        self._membership = self._start_membership()
        self._loss = NewestLoss(say)
        self._newest_failure: int | None = None  # of newcomers that were not ready
        self._repair = Repair()
        self._cooldown = Cooldown(*rules.cooldown)
        self._offered: dict[IPAddress, int] = {}  # the slots of hosts, of which it was told last

    @property
    def over(self) -> bool:
        """Whether no peer lives, and none waits to be started anew."""
        waits = self._rules.keep and not self._ending and self.again is None
        return not self._living and not waits

    @property
    def outlives(self) -> bool:
        return False

    @property
    def due(self) -> float:
        return self._repair.due

    @property
    def size(self) -> int:
        """How many peers take part."""
        return len(self._membership.members)

    def started(self, number: int, peer: str) -> None:
        self._names[number] = peer

    def ready(self, number: int) -> None:
        self._newest_failure = None
        self._membership.ready(number)

    def entered(self, number: int, version: int) -> None:
        size = self.size  # the next list may have more
        if self._membership.entered(number, version):
            self._loss.go_on(size)
        if self._membership.is_complete:
            self._loss.train_again(self.size)
        if self._membership.dissolved:
            self._departed.add(number)

    def broken(self, _number: int, version: int) -> None:
        if version == self._membership.version:
            self._begin_repair()

    def propose(self, _number: int, size: int | None, answer: Answer) -> None:
        if size is not None:
            answer(self.change(size))
        elif self.source is not None:
            self.source.ask(answer)
        else:
            answer(_STATIC)

    def change(self, size: int) -> str | None:
        """Takes a proposal of a number of peers. Returns why it is refused, or None."""
        if not self._rules.watch:
            return _STATIC
        if self._ending:
            return "the job is ending"
        if self._rules.keep and not self._living:
            self.again = size if size <= self._cluster.slots else None
            room = there_are(self._cluster.slots, "slot")
            return None if self.again else f"{plural(size, 'peer')}: {room}"
        if not self._rules.reload:
            return self._membership.propose(size)
        refusal = self._membership.dissolve(size)
        if self._membership.dissolved:
            self.again = self._membership.target
        return refusal

    def notice(self, number: int, answer: Answer) -> None:
        if self._ending or self._membership.may_lose([number]):
            answer("the job is ending" if self._ending else None)
            return
        why = f"{self._named(number)} got SIGTERM, and the others are too few to go on"
        self._say(f"the job ends: {why}")
        self.stop_all(signal.SIGTERM, _TERMINATED)
        answer(why)

    def leave(self, number: int, answer: Answer) -> None:
        if self._ending or not self._goes_on_without([number], "SIGTERM", leaving=True):
            self.notice(number, answer)
            return
        self._hosts[self._places[number]].forgive(number)
        answer(None)

    def follow(self, workers: Sequence[str], *, found: bool = False) -> str | None:
        """Takes a proposal of workers from a document. Returns why it is refused, or None.

        The present peers that the document names stay, and the first of them becomes rank 0. The
        others leave. For each further address a newcomer is started on that host. A document that
        was `found` when the job started counts by its number of workers only: it cannot know the
        present peers.
        """
        if not self._rules.watch or self._rules.reload or not self._living or self._ending:
            return self.change(len(workers))
        self._wishes.forget_written(workers, self._names)
        known = self._wishes.known(self._names, self._membership.engaged)
        if found:
            of_hosts = [(self._names[n], self._places[n]) for n in self._membership.members]
            workers = worker_addresses.adopted(workers, of_hosts)
        wishes = [worker for worker in workers if worker not in known]
        staying = list(dict.fromkeys(known[worker] for worker in workers if worker in known))
        places = [self._places[number] for number in staying]
        refusal = worker_addresses.refusal(wishes, places, self._rooms)
        if refusal is None:
            wishes.sort(key=worker_addresses.is_anywhere)
            refusal = self._membership.propose_members(staying, wishes)
        if refusal is None and found and not wishes and set(staying) == {*self._membership.members}:
            # The next change of the document must start from peers that exist.
            self._tell_source()
        return refusal

    def offer(self, hosts: Sequence[Place], most: int) -> None:
        """There are these hosts now. As many peers as they have slots take part, up to `most`."""
        rooms = {host.address: host.slots for host in hosts if host.address in self._hosts}
        wanted = min(sum(rooms.values()), most)
        is_known, self._offered = rooms == self._offered, rooms
        if is_known or self._ending or wanted < (self._rules.least or 1):
            return
        staying: list[int] = []
        for number in self._membership.engaged:
            here = [other for other in staying if self._places[other] == self._places[number]]
            if len(here) < rooms.get(self._places[number], 0) and len(staying) < wanted:
                staying.append(number)
        if not set(staying) & set(self._membership.members):
            return
        self._rooms = rooms
        self._membership.limit(sum(rooms.values()))
        more = [f"0.0.0.0:{1 + number}" for number in range(wanted - len(staying))]
        self._membership.propose_members(staying, more)

    def order(self, size: int) -> tuple[bool, str]:
        """`change`, with an answer for a person: whether it is accepted, and a text."""
        now, target = self.size, self._membership.target
        refusal = self.change(size)
        if refusal is not None:
            return False, refusal
        instead = f", instead of {target}, which was under way" if target != now else ""
        if size == now and not instead:
            return True, f"the job has {plural(size, 'peer')} already"
        return True, f"from {plural(now, 'peer')} to {size}{instead}, as soon as all are ready"

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        self._living.discard(number)
        may_go_on = not (self._ending or stopped) and self._membership.is_lost(number, code)
        why = peer_process.describe(code) if code else None
        if may_go_on and self._goes_on_without([number], why):
            self._hosts[self._places[number]].forgive(number)
            return
        if not self._ending:
            if self._membership.awaits(number):
                self._cooldown.begin(self._places[number])
                self._hosts[self._places[number]].forgive(number)
            if self._membership.is_booting(number) and not (stopped or code in OF_THE_MACHINE):
                self._newcomer_failed(code)
            lost = self._member_ended(number, finished=code == 0, how=peer_process.describe(code))
            if code != 0 and not lost and not self._membership.dissolved:
                return
            if code == 0 and self._membership.dissolved and number not in self._departed:
                self._end_before_change()
        if code == 0:
            for host in self._hosts.values() if number in self._names else ():
                host.finished(self._names[number])
        elif not stopped:
            self._failed(number, code)

    def _newcomer_failed(self, code: int) -> None:
        """A newcomer has ended before it was ready. The next one may do the same."""
        is_second, self._newest_failure = code == self._newest_failure, code
        if is_second and self._rules.replaced:
            self._membership.replace_no_more()
            self._say(
                "newcomers failed twice in the same way before they were ready "
                f"({peer_process.describe(code)}): no more are started in place of lost peers"
            )

    def _goes_on_without(
        self, numbers: Sequence[int], why: str | None, *, leaving: bool = False
    ) -> bool:
        """Peers are lost or leave; with None one has finished. Whether the others go on."""
        membership = self._membership
        told = membership.lose(numbers)
        if not told:
            return False
        who = " and ".join(map(self._named, numbers))
        leaves = "leaves" if leaving else "was lost" if len(numbers) == 1 else "were lost"
        how = f"{who} has finished" if why is None else f"{who} {leaves}: {why}"
        if not self._may_change(membership.version, how):
            return True
        if why is not None:
            for number in numbers:
                self._cooldown.begin(self._places[number])
            what = f"{who} left" if leaving else f"the loss of {who}"
            self._loss.happened(what, is_missed=not membership.is_settled)
            self._say(f"{how}; the job goes on with {plural(self.size, 'peer')}")
        told = [*told, *(numbers if leaving else [])]
        self._publish(membership.version, membership.since, membership.members, told, how)
        return True

    def _named(self, number: int) -> str:
        return f"rank {number} ({self._names[number]})"

    def _end_before_change(self) -> None:
        """A peer has come to the end of its program: it has not left for another number."""
        if self.again is not None:
            self._say("the job has finished, and does not start anew")
        self.again = None

    def _member_ended(self, number: int, *, finished: bool, how: str) -> bool:
        """A process has ended. Returns whether the job has lost one of its members by that."""
        awaited = self._membership.awaits(number)
        lost = self._membership.ended(number, finished=finished)
        if not finished and awaited and number in self._membership.members:
            # Peers that have just entered its membership must hear of its failure. If a membership
            # without it is published instead, no peer may hear of it, since it would end them.
            self._tell_failed(self._names[number], how)
        return lost

    def warned(self, signum: int, times: int) -> None:
        if times > self._warnings.get(signum, 0):
            self._warnings[signum] = times
            for host in self._hosts.values():
                host.warn(signum)

    def stop_all(self, first: int, code: int) -> None:
        self.again = None
        self._stop_hosts(first, code)

    def advance(self) -> None:
        self._mend()
        if self._rules.replaced and not self._ending:
            self._membership.resume()

    def _begin_repair(self) -> None:
        if self._rules.least is not None:
            self._repair.begin(self._membership)

    def _mend(self) -> None:
        """Living peers whose connections have broken make them anew, and repeat their step."""
        if time.monotonic() < self._repair.due:
            return
        if not self._all_answer(self._repair.since):
            self._repair.postpone()
            return
        membership = self._membership
        is_wanted = self._repair.end(membership, self._living) and not self._ending
        told = membership.lose([]) if is_wanted else []
        if not told:
            return
        how = "connections between peers broke, which all live, and are made anew"
        self._say(how)
        self._loss.happened("that", is_missed=False)
        for address, host in self._hosts.items():
            here = [number for number in told if self._places[number] == address]
            if here:
                host.renew(membership.version, here)
        self._publish(membership.version, membership.since, membership.members, told, how)

    def _all_answer(self, _since: float) -> bool:
        """Whether the runners of all hosts have been heard since."""
        return True

    def close(self) -> None:
        pass

    def runs_on(self, number: int, address: IPAddress) -> bool:
        """Whether this peer runs on that host."""
        return number in self._living and self._places[number] == address

    def needs(self, address: IPAddress) -> bool:
        """Whether that host has peers, or will get some."""
        return address in (self._places[number] for number in self._living)

    def lost(self, address: IPAddress, why: str) -> None:
        """The runner of a host is gone, and its peers with it."""
        numbers = [number for number in sorted(self._living) if self._places[number] == address]
        self._living.difference_update(numbers)
        survives = self._rules.least is not None
        if self._ending or (survives and not numbers and not self._rules.watch):
            return
        how = f"the runner on {address} {why}"
        lost = [number for number in numbers if survives and self._membership.is_involved(number)]
        is_survived = bool(lost) and self._goes_on_without(lost, how)
        is_missed = not self._rules.watch or any(map(self._membership.has_met, numbers))
        if is_survived or not is_missed:
            self._forget_host(address, [n for n in numbers if n not in lost], how)
            return
        self._say(f"the job ends: {how}")
        for number in numbers:
            if number in self._names:
                self._tell_failed(self._names[number], how)
        self.stop_all(0, LOST)

    def _forget_host(self, address: IPAddress, newcomers: Sequence[int], how: str) -> None:
        """The job goes on without a host, whose members are lost already."""
        if not self._rules.watch:
            return
        self._say(f"{how}: the job goes on without that host")
        self._rooms.pop(address)
        for number in newcomers:
            self._member_ended(number, finished=False, how=how)
        self._membership.limit(sum(self._rooms.values()))

    def _stop_hosts(self, first: int, code: int) -> None:
        if not self._ending:
            self._ending, self.code = True, code
            for host in self._hosts.values():
                host.stop_all(first, code)

    def _failed(self, number: int, code: int) -> None:
        how = peer_process.describe(code)
        name = self._names.get(number, f"on {self._places[number]}")
        if not self._ending and len(self._hosts) > 1:
            self._say(f"rank {number} ({name}) failed first: {how}; its host's runner says more")
        if number in self._names:
            self._tell_failed(name, how)
        if not self._ending:
            self.recovering = self._may_recover(code)
            self.again = self._membership.target if self.recovering else None
        self._stop_hosts(0, peer_process.exit_code(code))

    def _may_recover(self, code: int) -> bool:
        if self._rules.recoveries == 0 or code in CANNOT_START:
            return False
        if not any(host.has_begun for host in self._hosts.values()):
            self.early_failure = code
        if self.early_failure is None or self.early_failure != self._rules.early_failure:
            return True
        self._say(
            "the program has failed twice in the same way before its first collective: the job "
            "does not start anew"
        )
        return False

    def _tell_failed(self, name: str, how: str) -> None:
        for host in self._hosts.values():
            host.failed(name, how)

    def _start_membership(self) -> Membership:
        actions = Actions(self._start, self._stop, self._may_change, self._publish, self._say)
        ranks = [peer.rank for peer in self._cluster.peers]
        rules = self._rules
        losses = Losses(rules.least, rules.outlives_errors, rules.replaced, rules.spares)
        return Membership(ranks, self._cluster.slots, actions, losses)

    def _start(self, wish: str | None) -> int | None:
        engaged = [self._places[other] for other in self._membership.engaged]
        rooms = self._rooms.items()
        free = [address for address, room in rooms if engaged.count(address) < room]
        wanted = None if wish is None else worker_addresses.host_of(wish)
        hosts = [wanted] if wanted in self._rooms else list(filter(self._cooldown.is_over, free))
        if not hosts:
            return None
        number, self._next = self._next, self._next + 1
        address = hosts[0]
        if wish is not None:
            self._wishes.started(wish, number)
        self._places[number] = address
        self._living.add(number)
        self._hosts[address].start(number, self._membership.version)
        return number

    def _stop(self, number: int) -> None:
        self._hosts[self._places[number]].dismiss(number)

    def _may_change(self, version: int, how: str = "") -> bool:
        """Whether the job may have a list of this version. If not, it ends; `how` says why."""
        if version <= self._rules.changes:
            return True
        allowed = f"-max-changes allows {plural(int(self._rules.changes), 'change')}"
        reason = f"{allowed} of its peers, and this is one more"
        self._say(f"the job ends: {how}; {reason}" if how else f"the job ends: {reason}")
        self.stop_all(0, LOST)
        return False

    def _publish(
        self,
        version: int,
        since: int,
        members: Sequence[int],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        names = [self._names[number] for number in members]
        if self._membership.is_settled:
            self._tell_source()
        for address, host in self._hosts.items():
            here = [number for number in told if self._places[number] == address]
            if here:
                host.publish(version, since, names, here, lost)

    def _tell_source(self) -> None:
        """Writes the peers that take part into the document."""
        if self.source is not None:
            names = [self._names[number] for number in self._membership.members]
            self._wishes.told(names)
            self.source.tell(names)
