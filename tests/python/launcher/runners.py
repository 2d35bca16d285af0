"""Runners of jobs on hosts that only note what they are told to do."""

from __future__ import annotations

import ipaddress
import selectors
import time
from collections.abc import Callable, Sequence

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.deciding.director import Director, Rules
from kungfu_tf.launcher.deciding.follower import Follower
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.document.config_source import Source
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.placing.cluster import Cluster, Peer
from kungfu_tf.launcher.placing.hosts import Host
from kungfu_tf.launcher.placing.ports import Reservation
from kungfu_tf.links.credentials import Credentials
from tests import ports

A, B = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("127.0.0.2")
SECRET = Credentials("a job", "a secret that is long enough")
DEADLINE = 60.0
CHANGES = Rules(watch=True)


class Hands:
    """A host that notes what it is told to do."""

    def __init__(self) -> None:
        self.has_begun = True
        self.done: list[str] = []
        self.said: list[str] = []

    def start(self, number: int, version: int) -> None:
        self.done.append(f"start {number} {version}")

    def dismiss(self, number: int) -> None:
        self.done.append(f"dismiss {number}")

    def forgive(self, number: int) -> None:
        self.done.append(f"forgive {number}")

    def publish(
        self,
        version: int,
        since: int,
        peers: Sequence[str],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        line = f"publish {version} {since} {' '.join(peers)} to {list(told)}"
        self.done.append(f"{line}: {lost}" if lost else line)

    def renew(self, version: int, told: Sequence[int]) -> None:
        self.done.append(f"renew {version} to {list(told)}")

    def failed(self, peer: str, text: str) -> None:
        self.done.append(f"failed {peer} {text}")

    def finished(self, peer: str) -> None:
        self.done.append(f"finished {peer}")

    def warn(self, signum: int) -> None:
        self.done.append(f"warn {signum}")

    def stop_all(self, first: int, code: int) -> None:
        self.done.append(f"stop all {first} {code}")

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done


def cluster(here: ipaddress.IPv4Address) -> Cluster:
    """Two hosts with two slots each, and a peer on the first one."""
    return Cluster((Peer(0, A, 10000, 0, 0),), here, (Host(A, 2), Host(B, 2)), Reservation(here))


def turn_until(
    condition: Callable[[], object],
    directors: Sequence[Director],
    selector: selectors.BaseSelector,
    what: Callable[[], str],
) -> None:
    """Turns an event loop until something is true; an error that says what was not."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what()
        for director in directors:
            director.advance()
        event_turn.take(selector, selector.select(0.05))


class Two:
    """The runners of two hosts in one loop."""

    def __init__(self, *, secret: Credentials = SECRET, rules: Rules = CHANGES) -> None:
        self.selector = selectors.PollSelector()
        port = ports.take()[0]
        self.here, self.there = Hands(), Hands()
        self.said: list[str] = []
        self.link = Link(SECRET, port, self.selector)
        self.leader = LeaderOfOthers(cluster(A), self.here, self.link, rules, say=self.said.append)
        self.leader.source = Source(MemoryStore())
        other = Link(secret, port, self.selector)
        self.follower = Follower(cluster(B), self.there, other, say=self.said.append)

    @property
    def directors(self) -> Sequence[Director]:
        return self.leader, self.follower

    def until(self, condition: Callable[[], object]) -> None:
        def what() -> str:
            return str((self.here.done, self.there.done, self.said))

        turn_until(condition, self.directors, self.selector, what)

    def until_there(self, *done: str) -> None:
        self.until(lambda: self.there.done == list(done))
        self.there.take()

    def close(self) -> None:
        for director in self.directors:
            director.close()
        self.selector.close()


def leader_of(size: int, rules: Rules) -> tuple[Leader, Hands]:
    hands = Hands()
    peers = tuple(Peer(rank, A, 10000 + rank, rank, rank) for rank in range(size))
    leader = Leader(
        Cluster(peers, A, (Host(A, 4),), Reservation(A)), {A: hands}, rules, say=hands.said.append
    )
    return leader, hands


def refusals(director: Director, number: int, size: int | None) -> list[str | None]:
    answers: list[str | None] = []
    director.propose(number, size, answers.append)
    return answers
