"""Another runner leads when the first one is gone."""

from __future__ import annotations

import ipaddress
import selectors
import signal
from collections.abc import Callable, Iterator, Sequence

import pytest

from kungfu_tf.launcher.deciding import succession, successor
from kungfu_tf.launcher.deciding.director import Director, Rules
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.lease import Lease
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.deciding.succession import Succession
from kungfu_tf.launcher.placing.cluster import Cluster, Peer
from kungfu_tf.launcher.placing.hosts import Host
from kungfu_tf.launcher.placing.ports import Reservation
from tests import ports
from tests.python.launcher.runners import SECRET, Hands, turn_until
from tests.python.launcher.served import TOKEN, Served

HOSTS = tuple(ipaddress.ip_address(f"127.0.0.{number}") for number in (1, 2, 3))
A, B, C = HOSTS
PEERS = tuple(Peer(rank, host, 10000, 0, 0) for rank, host in enumerate(HOSTS))


def lost(rank: int) -> str:
    """Why the others survive the runner on the host of this rank."""
    return f"rank {rank} ({PEERS[rank]}) was lost: the runner on {HOSTS[rank]} is gone"


def survivors(version: int, ranks: Sequence[int], why: str) -> str:
    """What each host is told of those that are left, with "here" for its own peer."""
    return f"publish {version} 0 {' '.join(str(PEERS[rank]) for rank in ranks)} to [here]: {why}"


class Claim:
    """A lease, as the test says who holds it."""

    def __init__(self) -> None:
        self.holder: str | None = str(A)
        self.is_held = True
        self.successor: str | None = None
        self.trouble: str | None = None
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Three:
    """The runners of three hosts with a peer each, in one loop."""

    def __init__(self) -> None:
        self.selector = selectors.PollSelector()
        self.hands = {host: Hands() for host in HOSTS}
        self.said: list[str] = []
        self.claims = {host: Claim() for host in HOSTS}
        link = Link(SECRET, ports.take()[0], self.selector)
        rules = Rules(least=1)
        self.leader = LeaderOfOthers(
            *(self._cluster(A), self.hands[A], link, rules, self.claims[A]), say=self.said.append
        )
        self.others = {
            host: Succession(
                *(self._cluster(host), self.hands[host], link, rules),
                lambda host=host: self.claims[host],
                say=self.said.append,
            )
            for host in (B, C)
        }
        self.directors: list[Director] = [self.leader, *self.others.values()]
        self.until(lambda: len(self.leader._addresses) == 2)

    @staticmethod
    def _cluster(here: ipaddress.IPv4Address) -> Cluster:
        return Cluster(PEERS, here, tuple(Host(host, 1) for host in HOSTS), Reservation(here))

    def until(self, condition: Callable[[], object]) -> None:
        done = {host: hands.done for host, hands in self.hands.items()}
        turn_until(condition, self.directors, self.selector, lambda: f"{self.said}, {done}")

    def elect(self, host: ipaddress.IPv4Address) -> None:
        for claim in self.claims.values():
            claim.holder = str(host)

    def lose_the_leader(self) -> None:
        self.directors.remove(self.leader)
        self.leader.close()
        self.until(lambda: sum("on 127.0.0.1, is gone" in line for line in self.said) == 2)

    def until_done(self, host: ipaddress.IPv4Address, *done: str) -> None:
        here = str(HOSTS.index(host))
        self.until(lambda: self.hands[host].done == [line.replace("here", here) for line in done])
        self.hands[host].take()

    def close(self) -> None:
        for director in self.directors:
            director.close()
        self.selector.close()


@pytest.fixture
def three() -> Iterator[Three]:
    three = Three()
    yield three
    three.close()


def test_who_holds_the_lease_leads(three: Three) -> None:
    three.lose_the_leader()
    three.elect(B)
    told = survivors(1, [1, 2], lost(0))
    three.until_done(B, told)
    three.until_done(C, told)
    assert "this runner leads the job from now on" in three.said
    assert [three.claims[host].is_open for host in (B, C)] == [True, False]
    assert [three.others[host].size for host in (B, C)] == [2, 2]
    # It decides as the first one did.
    three.others[C].ended(2, -signal.SIGKILL, stopped=False)
    three.until_done(B, survivors(2, [1], f"rank 2 ({PEERS[2]}) was lost: killed by SIGKILL"))
    three.others[B].ended(1, 0, stopped=False)
    three.until(lambda: all(director.over for director in three.directors))
    assert [director.code for director in three.directors] == [0, 0]


def test_the_newest_list_counts_whoever_has_heard_of_it(three: Three) -> None:
    three.others[C]._follower.knowledge.hear(3, [str(PEERS[0]), str(PEERS[2])])
    three.others[B]._follower.knowledge.ended[1] = -signal.SIGKILL, False
    three.lose_the_leader()
    three.elect(B)
    three.until_done(C, survivors(4, [2], lost(0)))
    assert three.hands[B].take() == []


def test_who_ends_while_nobody_leads_is_lost_or_has_finished(three: Three) -> None:
    three.lose_the_leader()
    three.others[B].ended(1, -signal.SIGKILL, stopped=False)
    three.elect(C)
    first = survivors(1, [1, 2], lost(0))
    second = survivors(2, [2], f"rank 1 ({PEERS[1]}) was lost: killed by SIGKILL")
    three.until_done(C, first, second)


def test_who_finishes_while_nobody_leads_is_no_survivor(three: Three) -> None:
    three.lose_the_leader()
    three.others[B].ended(1, 0, stopped=False)
    three.elect(B)
    three.until_done(C, survivors(1, [2], lost(0)))


def test_a_runner_that_does_not_come_is_lost(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successor, "COMING", 0.2)
    three.lose_the_leader()
    three.others[C].close()
    three.directors.remove(three.others[C])
    three.elect(B)
    three.until_done(
        B,
        survivors(1, [1, 2], lost(0)),
        survivors(2, [1], lost(2)),
    )


@pytest.mark.parametrize(
    ("holder", "trouble", "why"),
    [
        (str(A), None, "says that it leads still"),
        (None, "does not answer: refused", "does not answer: refused"),
        ("10.9.9.9", None, "leads that is on no host of this job"),
    ],
)
def test_without_a_leader_the_job_ends(
    three: Three,
    monkeypatch: pytest.MonkeyPatch,
    holder: str | None,
    trouble: str | None,
    why: str,
) -> None:
    monkeypatch.setattr(succession, "DEADLINE", 0.2)
    for claim in three.claims.values():
        claim.holder, claim.trouble = holder, trouble
    three.lose_the_leader()
    for host in (B, C):
        three.until_done(host, "stop all 0 1")
    assert sum(why in line for line in three.said) == 2, three.said
    assert not three.claims[B].is_open


def without_the_store(three: Three) -> None:
    three.claims[A].is_held = False
    three.claims[A].trouble = "does not answer: timed out"


def lose_the_third(three: Three) -> None:
    three.directors.remove(three.others[C])
    three.others[C].close()


WHY = "a host is lost, so that another runner may lead, and the store does not answer: timed out"


def test_a_leader_that_is_cut_off_does_not_go_on_alone(three: Three) -> None:
    without_the_store(three)
    lose_the_third(three)
    three.until_done(A, "stop all 0 1")
    assert three.said == [f"the job ends: {WHY}"]


def test_the_lead_is_contested_for_some_time_only(three: Three) -> None:
    lose_the_third(three)
    three.until_done(A, survivors(1, [0, 1], lost(2)))
    before = three.leader._contested
    three.leader._contested = 0.0
    without_the_store(three)
    three.leader.advance()
    assert three.hands[A].take() == []
    three.leader._contested = before
    three.until_done(A, "stop all 0 1")
    assert three.said[-1] == f"the job ends: {WHY}"


def test_a_leader_ends_when_another_one_leads(three: Three) -> None:
    three.claims[A].successor = str(B)
    three.until_done(A, "stop all 0 1")
    assert three.said == ["the job ends: the runner on 127.0.0.2 leads by now"]


def test_a_lease_has_one_holder_at_a_time(served: Served) -> None:
    with selectors.PollSelector() as selector:
        leases = [Lease(served.url, TOKEN, host, selector) for host in (A, B)]

        def until(condition: Callable[[], object]) -> None:
            turn_until(condition, [], selector, lambda: f"{[vars(one) for one in leases]}")

        until(lambda: all(one.holder for one in leases))
        first, second = sorted(leases, key=lambda one: not one.is_held)
        assert (first.holder, first.is_held, second.is_held) == (second.holder, True, False)
        first.close()
        until(lambda: second.is_held)
        served.stop()
        until(lambda: second.trouble)
        until(lambda: not second.is_held)
        assert second.successor is None
        served.start()
        until(lambda: second.is_held)
        second.close()
