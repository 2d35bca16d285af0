"""The runner that leads after the first one is gone, of a job that survives lost hosts."""

import re
import time
from collections.abc import Callable

from kungfu_tf.launcher.deciding.director import Host, Rules
from kungfu_tf.launcher.deciding.knowledge import Knowledge
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.lease import Lease
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.hosts import IPAddress
from kungfu_tf.links.connections import Connection

COMING = 3.0  # seconds within which the other runners must come: peers wait 10 s for their word

_HEARD = re.compile("heard ([0-9]{1,7}) ([^ ]+)")


class Successor(LeaderOfOthers):
    """Collects what the other runners know, then decides for them as the first one did.

    Until the others have come it decides nothing. Then the peers of the hosts that have not are
    lost, and all others get a list of a new version, whichever they have heard of.

    Args:
        cluster: The cluster with which the job has started.
        own: This host's runner.
        link: How the others reach it.
        rules: The rules of the decisions.
        lease: The lease, which this runner holds.
        knowledge: What this runner knows.
        lost: The host of the runner that has led before.
        say: Prints a line for the user.

    Raises:
        LaunchError: If the port is not available.
    """

    def __init__(
        self,
        cluster: Cluster,
        own: Host,
        link: Link,
        rules: Rules,
        lease: Lease,
        knowledge: Knowledge,
        lost: IPAddress,
        *,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(cluster, own, link, rules, lease, say=say)
        self._knowledge: Knowledge | None = knowledge
        self._lost = lost
        self._come: set[IPAddress] = set()  # the hosts whose runners have told what they know
        self._until = time.monotonic() + COMING

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        if self._knowledge is not None:
            self._knowledge.ended[number] = code, stopped
        else:
            super().ended(number, code, stopped=stopped)

    def lost(self, address: IPAddress, why: str) -> None:
        if self._knowledge is None:
            super().lost(address, why)

    def advance(self) -> None:
        super().advance()
        missing = [
            address
            for address, far in self._others.items()
            if address != self._lost and (far.connection is None or address not in self._come)
        ]
        if self._knowledge is not None and (not missing or time.monotonic() > self._until):
            self._begin(self._knowledge, [self._lost, *missing])

    def _take(self, connection: Connection, line: str) -> bool:
        heard = _HEARD.fullmatch(line)
        if heard is None or self._knowledge is None or connection not in self._addresses:
            return super()._take(connection, line)
        if heard[2] != "-":
            self._knowledge.hear(int(heard[1]), heard[2].split(","))
        self._come.add(self._addresses[connection])
        return True

    def _begin(self, knowledge: Knowledge, gone: list[IPAddress]) -> None:
        self._knowledge = None
        numbers = {name: number for number, name in self._names.items()}
        members = [numbers[peer] for peer in knowledge.peers if peer in numbers]
        finished = {number for number, (code, _) in knowledge.ended.items() if code == 0}
        left = [number for number in members or numbers.values() if number not in finished]
        self._living.intersection_update(left)
        self._membership.inherit(knowledge.version, left)
        for address in gone:
            self._others[address].gone = True
            self.lost(address, "is gone")
        if self._membership.version == knowledge.version:
            self._tell_all("another runner leads")
        for number, (code, stopped) in knowledge.ended.items():
            if number in self._living:
                super().ended(number, code, stopped=stopped)

    def _tell_all(self, why: str) -> None:
        """Nobody is lost, but some may not have heard of the newest list."""
        membership = self._membership
        told = membership.lose([])
        if told:
            self._publish(membership.version, membership.since, membership.members, told, why)
