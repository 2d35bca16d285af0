"""What the runners of several hosts decide and tell each other, over real sockets."""

from __future__ import annotations

import ipaddress
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from kungfu_tf.launcher import flags
from kungfu_tf.launcher.cluster import Cluster, Peer
from kungfu_tf.launcher.config_source import Source
from kungfu_tf.launcher.credentials import Credentials
from kungfu_tf.launcher.director import Director, Leader, Rules
from kungfu_tf.launcher.following import Follower
from kungfu_tf.launcher.handshake import Asked, Asking
from kungfu_tf.launcher.hosts import Host
from kungfu_tf.launcher.leading import LeaderOfOthers, Link
from kungfu_tf.launcher.ports import Reservation
from kungfu_tf.launcher.store import ClusterStore

A, B = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("127.0.0.2")
SECRET = Credentials("a job", "a secret that is long enough")
DEADLINE = 20.0


def cluster(here: ipaddress.IPv4Address) -> Cluster:
    """Two hosts with two slots each, and a peer on the first one."""
    return Cluster((Peer(0, A, 10000, 0, 0),), here, (Host(A, 2), Host(B, 2)), Reservation(here))


class Hands:
    """A host that notes what it is told to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def start(self, number: int, version: int) -> None:
        self.done.append(f"start {number} {version}")

    def dismiss(self, number: int) -> None:
        self.done.append(f"dismiss {number}")

    def forgive(self, number: int) -> None:
        self.done.append(f"forgive {number}")

    def publish(self, version: int, peers: Sequence[str], told: Sequence[int]) -> None:
        self.done.append(f"publish {version} {' '.join(peers)} to {list(told)}")

    def failed(self, peer: str, text: str) -> None:
        self.done.append(f"failed {peer} {text}")

    def left(self, peer: str) -> None:
        self.done.append(f"left {peer}")

    def end(self, first: int, code: int) -> None:
        self.done.append(f"end {first} {code}")

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done


class Two:
    """The runners of two hosts in one loop."""

    def __init__(self, *, secret: Credentials = SECRET) -> None:
        self.selector = selectors.PollSelector()
        with socket.create_server((str(A), 0)) as free:
            port = free.getsockname()[1]
        self.here, self.there = Hands(), Hands()
        self.said: list[str] = []
        self.link = Link(SECRET, port, self.selector)
        self.leader = LeaderOfOthers(
            cluster(A), self.here, self.link, Rules(watch=True), say=self.said.append
        )
        self.leader.source = Source(ClusterStore())
        other = Link(secret, port, self.selector)
        self.follower = Follower(cluster(B), self.there, other, say=self.said.append)

    @property
    def directors(self) -> Sequence[Director]:
        return self.leader, self.follower

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, (self.here.done, self.there.done, self.said)
            for director in self.directors:
                director.advance()
            for key, events in self.selector.select(0.05):
                key.data(events)

    def until_there(self, *done: str) -> None:
        self.until(lambda: self.there.done == list(done))
        self.there.take()

    def close(self) -> None:
        for director in self.directors:
            director.close()
        self.selector.close()


@pytest.fixture
def two() -> Iterator[Two]:
    two = Two()
    yield two
    two.close()


def refusals(director: Director, number: int, size: int | None) -> list[str | None]:
    answers: list[str | None] = []
    director.propose(number, size, answers.append)
    return answers


def test_a_job_grows_onto_another_host_and_shrinks(two: Two) -> None:
    assert refusals(two.leader, 0, 3) == [None]
    assert two.here.take() == ["start 1 0"]
    two.until_there("start 2 0")
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    two.follower.started(2, "127.0.0.2:10000")
    two.follower.ready(2)
    peers = "127.0.0.1:10000 127.0.0.1:10001 127.0.0.2:10000"
    two.until(lambda: two.here.done == [f"publish 1 {peers} to [0]"])
    two.here.take()
    two.leader.entered(0, 1)
    two.until_there(f"publish 1 {peers} to [2]")
    assert two.follower.size == two.leader.size == 3
    two.leader.entered(1, 1)
    two.follower.entered(2, 1)
    answers = refusals(two.follower, 2, 2)
    two.until(lambda: answers == [None])
    two.until_there("publish 2 127.0.0.1:10000 127.0.0.1:10001 to [2]")
    two.follower.ended(2, 0, stopped=False)
    two.until_there("left 127.0.0.2:10000")


def test_what_cannot_be_is_refused_on_the_other_host_too(two: Two) -> None:
    two.leader.propose(0, 3, lambda _refusal: None)
    two.until_there("start 2 0")
    answers = refusals(two.follower, 2, 5)
    two.until(lambda: answers == ["5 peers: there are 4 slots"])
    answers = refusals(two.follower, 2, None)
    two.until(lambda: answers and "no config server" in str(answers[0]))


def test_a_person_hears_what_comes_of_it(two: Two) -> None:
    assert two.leader.order(9) == (False, "9 peers: there are 4 slots")
    assert two.leader.order(1) == (True, "the job has 1 peers already")
    assert two.leader.order(2)[1].startswith("from 1 peers to 2, as soon as")
    assert "to 3, instead of 2, which was under way" in two.leader.order(3)[1]


def test_the_first_failure_ends_all_hosts(two: Two) -> None:
    two.leader.ended(0, -9, stopped=False)
    failed = ["failed 127.0.0.1:10000 killed by SIGKILL", "end 0 137"]
    assert two.here.take() == failed
    two.until(lambda: two.follower.over and two.leader.over)
    assert two.there.take() == failed
    assert two.follower.code == two.leader.code == 137


def test_all_hosts_know_that_a_failure_is_why_all_start_anew(two: Two) -> None:
    two.leader._rules = Rules(recoveries=1)
    two.leader.ended(0, -9, stopped=False)
    two.until(lambda: two.follower.over and two.leader.over)
    assert two.follower.again == 1
    assert two.follower.recovering


def test_a_newcomer_that_dies_on_the_other_host_concerns_nobody(two: Two) -> None:
    two.leader.propose(0, 3, lambda _refusal: None)
    two.until_there("start 2 0")
    two.follower.started(2, "127.0.0.2:10000")
    two.follower.ended(2, 3, stopped=False)
    two.until_there("forgive 2")
    assert "newcomer 2 has ended before it was taken in" in two.said


def test_who_is_asked_to_end_asks_all(two: Two) -> None:
    two.until(lambda: two.follower._connection)
    two.follower.end(2, 130)
    two.until(lambda: two.here.done == ["end 2 130"])
    two.leader.ended(0, -2, stopped=True)
    two.until(lambda: two.follower.over and two.leader.over)
    assert two.follower.code == two.leader.code == 130


def test_a_runner_that_is_gone_is_named(two: Two) -> None:
    two.leader.propose(0, 3, lambda _refusal: None)
    two.until_there("start 2 0")
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    two.follower.started(2, "127.0.0.2:10000")
    two.follower.ready(2)
    two.until(lambda: two.leader.size == 3)
    two.here.take()
    two.follower.close()
    two.until(lambda: "the job ends: the runner on 127.0.0.2 is gone" in two.said)
    failed = "failed 127.0.0.2:10000 the runner on 127.0.0.2 is gone"
    assert two.here.take() == [failed, "end 0 1"]


def test_without_a_host_that_has_no_peer_the_others_go_on(two: Two) -> None:
    two.leader.propose(0, 4, lambda _refusal: None)
    two.until_there("start 2 0", "start 3 0")
    two.follower.close()
    two.until(lambda: any("goes on without that host" in line for line in two.said))
    assert two.leader.change(3) == "3 peers: there are 2 slots"
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    assert two.leader.size == 2


def test_without_the_one_that_leads_the_others_end(two: Two) -> None:
    two.until(lambda: two.follower._connection)
    two.leader.close()
    two.until(lambda: two.there.done == ["end 0 1"])
    assert two.follower.over
    assert "leads it (127.0.0.1 port" in two.said[-1]


def test_without_the_secret_nobody_is_taken_in() -> None:
    two = Two(secret=Credentials("a job", "another secret, which is as long"))
    two.until(lambda: two.follower.over)
    assert "refused 127.0.0.1, which wants to take part" in two.said[0]
    assert "KUNGFU_SECRET or the command lines differ" in two.said[1]
    assert not two.leader._addresses
    two.close()


@pytest.mark.parametrize(
    "opening",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"hello 127.0.0.2 " + b"0" * 32 + b" " + b"0" * 64 + b"\n",
        b"x" * 5000,
        b"ended 0 1 0\n",
    ],
)
def test_strangers_are_dropped(two: Two, opening: bytes) -> None:
    with socket.create_connection((str(A), two.link.port)) as stranger:
        stranger.setblocking(False)
        stranger.sendall(opening)
        heard: list[bytes] = []

        def closed() -> bool:
            try:
                heard.append(stranger.recv(4096))
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            return heard[-1] == b""

        two.until(closed)
    assert two.here.take() == []


@pytest.mark.parametrize("line", ["ready 0", "ended 7 1 0", "started 0 x", "nonsense", "end 2"])
def test_what_a_runner_may_not_say_costs_it_the_connection(two: Two, line: str) -> None:
    two.until(lambda: two.follower._connection)
    two.follower._tell(line)
    two.until(lambda: two.follower.over)


def test_each_side_proves_that_it_knows_the_secret() -> None:
    asked, asking = Asked(SECRET), Asking(SECRET, "127.0.0.2")
    hello = asking.hello(asked.greeting)
    assert hello is not None
    answer = asked.answer(hello)
    assert answer is not None
    assert answer[0] == "127.0.0.2"
    assert asking.welcomed(answer[1])
    assert Asked(SECRET).answer(hello) is None  # said again to another
    assert not asking.welcomed(answer[1].replace("welcome", "hello"))
    assert not asking.welcomed("welcome " + hello[-64:])  # its own proof, sent back
    assert Asking(SECRET, "127.0.0.2").hello("SSH-2.0-OpenSSH") is None


def test_a_job_of_one_host_asks_nobody() -> None:
    hands = Hands()
    alone = Cluster((Peer(0, A, 1, 0, 0),), A, (Host(A, 1),), Reservation(A))
    leader = Leader(alone, {A: hands}, Rules(), say=print)
    assert "kungfu-run -w" in str(refusals(leader, 0, 2)[0] or leader.change(2))
    leader.ended(0, 0, stopped=False)
    assert leader.over


def leader_of(size: int, rules: Rules) -> tuple[Leader, Hands]:
    hands = Hands()
    peers = tuple(Peer(rank, A, 10000 + rank, rank, rank) for rank in range(size))
    leader = Leader(
        Cluster(peers, A, (Host(A, 4),), Reservation(A)), {A: hands}, rules, say=lambda _text: None
    )
    return leader, hands


def test_after_a_failure_all_start_anew() -> None:
    leader, hands = leader_of(2, Rules(recoveries=1))
    leader.ended(1, -9, stopped=False)
    assert hands.take()[-1] == "end 0 137"
    leader.ended(0, 1, stopped=False)  # the failure of the first made it fail, too
    assert leader.over
    assert leader.recovering
    assert leader.again == 2


@pytest.mark.parametrize("code", [126, 127])
def test_what_cannot_be_started_is_not_started_anew(code: int) -> None:
    leader, _ = leader_of(1, Rules(recoveries=1))
    leader.ended(0, code, stopped=False)
    assert leader.again is None


def test_recoveries_have_an_end_and_a_person_may_end_one() -> None:
    leader, _ = leader_of(1, Rules(recoveries=0))
    leader.ended(0, 1, stopped=False)
    assert leader.again is None
    leader, _ = leader_of(2, Rules(recoveries=1))
    leader.ended(0, 1, stopped=False)
    leader.end(2, 130)
    assert leader.again is None


def test_in_reload_mode_all_leave_and_start_anew() -> None:
    leader, hands = leader_of(2, Rules(watch=True, reload=True))
    assert leader.change(5) == "5 peers: there are 4 slots"
    assert leader.change(2) is None
    assert hands.take() == []
    assert leader.change(3) is None
    assert hands.take() == ["publish 1  to [0, 1]"]
    assert leader.change(4) is None  # what was asked for last counts
    leader.ended(0, 0, stopped=False)
    leader.ended(1, 0, stopped=False)
    assert (leader.over, leader.again) == (True, 4)


def test_who_fails_to_leave_ends_the_job() -> None:
    leader, hands = leader_of(2, Rules(watch=True, reload=True))
    leader.change(3)
    leader.ended(1, 1, stopped=False)
    assert hands.take()[-1] == "end 0 1"
    assert leader.again is None


def test_a_job_may_stay_when_its_peers_have_ended() -> None:
    leader, _ = leader_of(1, Rules(watch=True, keep=True))
    leader.ended(0, 0, stopped=False)
    assert not leader.over
    assert leader.change(5) == "5 peers: there are 4 slots"
    assert leader.change(2) is None
    assert (leader.over, leader.again) == (True, 2)
    leader, _ = leader_of(1, Rules(watch=True, keep=True))
    leader.ended(0, 0, stopped=False)
    leader.end(15, 143)
    assert leader.over


def test_the_port_of_the_runners_is_before_those_of_the_peers() -> None:
    assert flags.parse(["-port-range", "500-600", "prog"]).runner_port == 499
    assert flags.parse(["-port", "77", "prog"]).runner_port == 77


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
    assert hands.take() == [f"publish 1 {second} {third} to [0, 1, 2]"]
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
    assert hands.take() == [f"publish 2 {second} {third} 127.0.0.1:20003 to [1, 2]"]


class Written(Source):
    """A document that has the peers of today, as the leader tells them."""

    def __init__(self) -> None:
        super().__init__(ClusterStore())
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
