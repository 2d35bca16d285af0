"""The runner of a host that does not lead, and may lead when the one that does is gone.

With a store that all runners reach, the one that gets its lease leads. The others report to it.
"""

import time
from collections.abc import Callable

from kungfu_tf.launcher.channels.control import Answer
from kungfu_tf.launcher.deciding.director import Director, Host, Rules
from kungfu_tf.launcher.deciding.follower import Follower
from kungfu_tf.launcher.deciding.lease import Lease
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.deciding.successor import Successor
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.cluster import Cluster

DEADLINE = 10.0  # seconds until somebody leads


class Succession:
    """A Director that is a Follower first, and may become a Successor.

    Args:
        cluster: The cluster with which the job starts.
        own: This host's runner.
        link: How the runners reach each other.
        rules: The rules of decisions.
        claim: Claims the lead.
        say: Prints a line for the user.
    """

    def __init__(
        self,
        cluster: Cluster,
        own: Host,
        link: Link,
        rules: Rules,
        claim: Callable[[], Lease],
        *,
        say: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._own = own
        self._link = link
        self._rules = rules
        self._claim = claim
        self._say = say
        self._follower = Follower(cluster, own, link, say=say, outlive=self._contend)
        self._director: Director = self._follower
        self._lease: Lease | None = None  # while nobody leads
        self._deadline = 0.0

    @property
    def code(self) -> int:
        return self._director.code

    @property
    def outlives(self) -> bool:
        return self._director.outlives

    @property
    def again(self) -> int | None:
        return self._director.again

    @property
    def recovering(self) -> bool:
        return self._director.recovering

    @property
    def early_failure(self) -> int | None:
        return self._director.early_failure

    @property
    def over(self) -> bool:
        return self._director.over

    @property
    def size(self) -> int:
        return self._director.size

    @property
    def due(self) -> float:
        return self._director.due

    def started(self, number: int, peer: str) -> None:
        self._director.started(number, peer)

    def ready(self, number: int) -> None:
        self._director.ready(number)

    def entered(self, number: int, version: int) -> None:
        self._director.entered(number, version)

    def broken(self, number: int, version: int) -> None:
        self._director.broken(number, version)

    def propose(self, number: int, size: int | None, answer: Answer) -> None:
        self._director.propose(number, size, answer)

    def notice(self, number: int, answer: Answer) -> None:
        self._director.notice(number, answer)

    def leave(self, number: int, answer: Answer) -> None:
        self._director.leave(number, answer)

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        self._director.ended(number, code, stopped=stopped)

    def warned(self, signum: int, times: int) -> None:
        self._director.warned(signum, times)

    def stop_all(self, first: int, code: int) -> None:
        self._director.stop_all(first, code)

    def advance(self) -> None:
        self._director.advance()
        if self._lease is None:
            return
        holder, lost = self._lease.holder, self._follower.leader
        if self._follower.over:
            self._end_contest()
        elif holder == str(self._cluster.here):
            self._lead(self._lease)
        elif holder is not None and holder != str(lost):
            self._end_contest()
            self._follow(holder)
        elif time.monotonic() > self._deadline:
            why = self._lease.trouble or "says that it leads still"
            self._end_contest()
            self._follower.give_up(f"is gone, and the store {why}")

    def close(self) -> None:
        self._director.close()
        self._end_contest()

    def _contend(self) -> None:
        """The runner that has led is gone."""
        self._say(f"the runner that leads the job, on {self._follower.leader}, is gone")
        self._lease = self._claim()
        self._deadline = time.monotonic() + DEADLINE

    def _end_contest(self) -> None:
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    def _lead(self, lease: Lease) -> None:
        self._lease = None
        try:
            self._director = Successor(
                self._cluster,
                self._own,
                self._link,
                self._rules,
                lease,
                self._follower.knowledge,
                self._follower.leader,
                say=self._say,
            )
        except LaunchError as error:
            lease.close()
            self._follower.give_up(f"is gone, and this one cannot lead: {error}")
            return
        self._follower.close()
        self._say("this runner leads the job from now on")

    def _follow(self, holder: str) -> None:
        for host in self._cluster.hosts:
            if str(host.address) == holder:
                self._follower.turn_to(host.address)
                return
        self._follower.give_up("is gone, and a runner leads that is on no host of this job")
