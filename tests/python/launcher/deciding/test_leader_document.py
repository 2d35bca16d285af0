"""What a cluster document means to a job that runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.document.config_source import Source
from kungfu_tf.launcher.document.memory_store import MemoryStore
from tests.python.launcher.runners import Two, leader_of


def enter(leader: Leader, *numbers: int) -> None:
    assert leader._membership is not None
    for number in numbers:
        leader.entered(number, leader._membership.version)


def test_a_document_says_who_leaves() -> None:
    leader, hands = leader_of(3, Rules(watch=True))
    first, second, third = (f"127.0.0.1:{10000 + rank}" for rank in range(3))
    assert leader.follow([first, second, third]) is None
    assert hands.take() == []
    assert leader.follow([second, third, "127.0.0.1:7", "0.0.0.0:1"]) is None
    assert hands.take() == [f"publish 1 1 {second} {third} to [0, 1, 2]"]
    enter(leader, 0, 1, 2)
    assert hands.take() == ["start 3 1", "start 4 1"]
    # What was asked for still means the same when it has another address.
    for number in (3, 4):
        leader.started(number, f"127.0.0.1:{20000 + number}")
    assert leader.follow([second, third, "127.0.0.1:7", "0.0.0.0:1"]) is None
    assert hands.take() == []
    assert leader.follow([second, third, "127.0.0.1:7", "127.0.0.1:20003"]) is None  # the same one
    assert hands.take() == ["dismiss 4"]
    leader.ready(3)
    assert hands.take() == [f"publish 2 2 {second} {third} 127.0.0.1:20003 to [1, 2]"]


class Written(Source):
    """A document that has the peers of today, as the leader tells them."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.workers: list[str] = []

    def tell(self, members: Sequence[str]) -> None:
        self.workers = list(members)


def grow(leader: Leader, number: int) -> None:
    """The newcomer of this number is taken in, and all go over."""
    leader.started(number, f"127.0.0.1:{20000 + number}")
    leader.ready(number)
    enter(leader, *range(number + 1))


def test_a_wish_counts_again_when_the_document_has_the_address_that_came_of_it() -> None:
    leader, hands = leader_of(1, Rules(watch=True))
    leader.source = written = Written()
    assert leader.follow(["127.0.0.1:10000", "0.0.0.0:1"]) is None
    assert hands.take() == ["start 1 0"]
    grow(leader, 1)
    assert written.workers == ["127.0.0.1:10000", "127.0.0.1:20001"]
    # Somebody else was faster than what was told.
    assert leader.follow(["127.0.0.1:10000", "0.0.0.0:1"]) is None
    assert leader.size == 2
    hands.take()
    assert leader.follow([*written.workers, "0.0.0.0:1"]) is None
    assert hands.take() == ["start 2 1"]
    grow(leader, 2)
    assert written.workers[2:] == ["127.0.0.1:20002"]


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        (["127.0.0.1:10000", "10.9.9.9:1"], "10.9.9.9:1 is on none of this job's hosts, which are"),
        (["127.0.0.1:10000", "there:1"], "there:1 is on none of this job's hosts"),
        (["127.0.0.1:7", "127.0.0.1:8"], "none of today's peers would stay"),
        ([f"127.0.0.1:{10000 + n}" for n in range(5)], "5 peers on 127.0.0.1: there are 4 slots"),
        (["127.0.0.1:10000", *(f"0.0.0.0:{n}" for n in range(1, 5))], "5 peers: there are 4"),
    ],
)
def test_what_a_document_cannot_have(workers: list[str], why: str) -> None:
    leader, hands = leader_of(2, Rules(watch=True))
    assert leader.follow(["127.0.0.1:10000", "127.0.0.1:10001"]) is None
    assert why in str(leader.follow(workers))
    assert hands.take() == []


def test_a_document_of_before_the_job_says_how_many() -> None:
    leader, hands = leader_of(2, Rules(watch=True))
    assert leader.follow(["127.0.0.1:5", "127.0.0.1:10001", "127.0.0.1:6"], found=True) is None
    assert hands.take() == ["start 2 0"]


def test_a_document_of_before_the_job_gets_the_names_of_its_peers() -> None:
    leader, hands = leader_of(2, Rules(watch=True))
    leader.source = written = Written()
    assert leader.follow(["127.0.0.1:5", "127.0.0.1:6"], found=True) is None
    assert hands.take() == []
    assert written.workers == ["127.0.0.1:10000", "127.0.0.1:10001"]
    assert leader.follow([*written.workers, "0.0.0.0:1"]) is None
    assert hands.take() == ["start 2 0"]


def test_a_document_says_on_which_host(two: Two) -> None:
    first = "127.0.0.1:10000"
    assert two.leader.follow([first, "0.0.0.0:1", "127.0.0.2:1", "127.0.0.2:2"]) is None
    two.until_there("start 1 0", "start 2 0")
    assert two.here.take() == ["start 3 0"]
    two.follower.close()
    two.until(lambda: any("goes on without that host" in line for line in two.said))
    two.leader.started(3, "127.0.0.1:10001")
    two.leader.ready(3)
    assert two.leader.size == 2
