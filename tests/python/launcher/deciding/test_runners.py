"""What the runners of several hosts tell each other, over real sockets."""

from __future__ import annotations

import dataclasses
import selectors
import socket

import pytest

from kungfu_tf.launcher.deciding import leader_of_others
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.placing.cluster import Peer
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.links.handshake import Asked, Asking
from tests import ports
from tests.python.launcher.runners import (
    CHANGES,
    SECRET,
    A,
    B,
    Hands,
    Two,
    cluster,
    refusals,
    turn_until,
)


def test_a_job_grows_onto_another_host_and_shrinks(two: Two) -> None:
    assert refusals(two.leader, 0, 3) == [None]
    assert two.here.take() == ["start 1 0"]
    two.until_there("start 2 0")
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    two.follower.started(2, "127.0.0.2:10000")
    two.follower.ready(2)
    peers = "127.0.0.1:10000 127.0.0.1:10001 127.0.0.2:10000"
    two.until(lambda: two.here.done == [f"publish 1 1 {peers} to [0]"])
    two.here.take()
    two.leader.entered(0, 1)
    two.until_there(f"publish 1 1 {peers} to [2]")
    assert two.follower.size == two.leader.size == 3
    two.leader.entered(1, 1)
    two.follower.entered(2, 1)
    answers = refusals(two.follower, 2, 2)
    two.until(lambda: answers == [None])
    two.until_there("publish 2 2 127.0.0.1:10000 127.0.0.1:10001 to [2]")
    two.follower.ended(2, 0, stopped=False)
    two.until_there("finished 127.0.0.2:10000")


def test_what_cannot_be_is_refused_on_the_other_host_too(two: Two) -> None:
    two.leader.propose(0, 3, lambda _refusal: None)
    two.until_there("start 2 0")
    answers = refusals(two.follower, 2, 5)
    two.until(lambda: answers == ["5 peers: there are 4 slots"])
    answers = refusals(two.follower, 2, None)
    two.until(lambda: answers and "no config server" in str(answers[0]))


def test_a_person_hears_what_comes_of_it(two: Two) -> None:
    assert two.leader.order(9) == (False, "9 peers: there are 4 slots")
    assert two.leader.order(1) == (True, "the job has 1 peer already")
    assert two.leader.order(2)[1].startswith("from 1 peer to 2, as soon as")
    assert "to 3, instead of 2, which was under way" in two.leader.order(3)[1]


def test_the_first_failure_ends_all_hosts(two: Two) -> None:
    two.leader.ended(0, -9, stopped=False)
    failed = ["failed 127.0.0.1:10000 killed by SIGKILL", "stop all 0 137"]
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


def test_survivors_of_all_hosts_are_told(two: Two) -> None:
    names = ["127.0.0.1:10001", "127.0.0.2:10000"]
    for host in two.leader._hosts.values():
        host.publish(1, 0, names, [1, 2], "rank 0 was lost: killed by SIGKILL")
    told = f"publish 1 0 {' '.join(names)} to [1, 2]: rank 0 was lost: killed by SIGKILL"
    assert two.here.take() == [told]
    two.until_there(told)
    assert two.follower.size == 2


def test_connections_are_made_anew_on_all_hosts() -> None:
    two = Two(rules=dataclasses.replace(CHANGES, least=1))
    try:
        until_there_are_three(two)
        two.follower.entered(2, 1)
        two.leader.entered(0, 1)
        two.leader.entered(1, 1)
        two.until(lambda: two.leader._membership.is_complete)
        two.here.take(), two.there.take()
        two.follower.broken(2, 1)
        two.until(lambda: len(two.there.done) == 2)
        for host, numbers in ((two.here, [0, 1]), (two.there, [2])):
            renew, publish = host.take()
            assert renew == f"renew 2 to {numbers}"
            assert publish.startswith("publish 2 1 ") and "connections between peers" in publish
    finally:
        two.close()


def test_who_is_asked_to_end_asks_all(two: Two) -> None:
    two.until(lambda: two.follower._connection)
    two.follower.stop_all(2, 130)
    two.until(lambda: two.here.done == ["stop all 2 130"])
    two.leader.ended(0, -2, stopped=True)
    two.until(lambda: two.follower.over and two.leader.over)
    assert two.follower.code == two.leader.code == 130


def test_a_warning_reaches_all_hosts_once_however_many_have_got_it(two: Two) -> None:
    two.follower.warned(10, 1)
    two.until(lambda: two.here.done == ["warn 10"])
    two.until_there("warn 10")
    two.leader.warned(10, 1)  # the same, as a batch system tells each host
    two.leader.warned(12, 1)
    two.until_there("warn 12")
    two.leader.warned(10, 2)
    two.until_there("warn 10")
    assert two.here.take() == ["warn 10", "warn 12", "warn 10"]


FAILED = "failed 127.0.0.2:10000 the runner on 127.0.0.2 is gone"


def until_there_are_three(two: Two) -> None:
    two.leader.propose(0, 3, lambda _refusal: None)
    two.until_there("start 2 0")
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    two.follower.started(2, "127.0.0.2:10000")
    two.follower.ready(2)
    two.until(lambda: two.leader.size == 3)


def test_a_runner_that_is_gone_is_named(two: Two) -> None:
    until_there_are_three(two)
    two.leader.entered(0, 1)
    two.here.take()
    two.follower.close()
    two.until(lambda: "the job ends: the runner on 127.0.0.2 is gone" in two.said)
    assert two.here.take() == [FAILED, "stop all 0 1"]


def test_without_a_runner_whose_peers_nobody_has_met_the_others_go_on(two: Two) -> None:
    until_there_are_three(two)
    two.here.take()
    two.follower.close()
    two.until(lambda: two.leader.size == 2)
    assert "the runner on 127.0.0.2 is gone: the job goes on without that host" in two.said
    assert two.here.take() == ["publish 2 1 127.0.0.1:10000 127.0.0.1:10001 to [0]"]


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
    two.until(lambda: two.there.done == ["stop all 0 1"])
    assert two.follower.over
    assert "leads it (127.0.0.1 port" in two.said[-1]


def test_a_host_that_does_not_come_back_ends_a_job_that_was_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_of_others, "COMING_DEADLINE", 0.0)
    peers = (Peer(0, A, 10000, 0, 0), Peer(1, B, 10000, 0, 0))
    both = dataclasses.replace(cluster(A), peers=peers)
    said: list[str] = []
    with selectors.PollSelector() as selector:
        link = Link(SECRET, ports.take()[0], selector)
        here = Hands()
        leader = LeaderOfOthers(both, here, link, Rules(recoveries=9), say=said.append)
        try:
            turn_until(lambda: here.done, [leader], selector, lambda: str(said))
            leader.ended(0, -15, stopped=True)
            turn_until(lambda: leader.over, [leader], selector, lambda: str(said))
        finally:
            leader.close()
    assert here.done[-1] == "stop all 0 1"
    assert said == ["the job ends: the runner on 127.0.0.2 has not come within 0 s"]
    assert (leader.code, leader.again) == (1, None)


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


@pytest.mark.parametrize(
    "line", ["ready 0", "ended 7 1 0", "started 0 x", "nonsense", "end 2", "warned 9 1"]
)
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
