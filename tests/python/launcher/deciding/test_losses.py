"""What a runner decides when a job loses peers while it changes its size."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import signal

import pytest

from kungfu_tf.launcher.deciding import membership
from kungfu_tf.launcher.deciding.cooldown import Cooldown
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.membership import Losses
from kungfu_tf.launcher.placing.hosts import Host
from tests.python.launcher.deciding.test_membership import Job
from tests.python.launcher.runners import A, B, Hands, leader_of, refusals

KILLED = -signal.SIGKILL


def job_of(size: int, *, slots: int = 8, least: int = 1, replaced: float = 0) -> Job:
    return Job(size, slots, Losses(least, replaced=replaced))


def grown(job: Job, size: int) -> range:
    """The newcomers, who are ready, of a job that all others are about to take in."""
    before = len(job.membership.members)
    assert job.membership.propose(size) is None
    newcomers = range(job._next - size + before, job._next)
    for newcomer in newcomers:
        job.membership.ready(newcomer)
    return newcomers


def lose(job: Job, *ranks: int) -> list[int]:
    assert all(job.membership.is_lost(rank, KILLED) for rank in ranks)
    return job.membership.lose(ranks)


def test_a_lost_peer_is_not_replaced_until_somebody_asks() -> None:
    job = job_of(4)
    assert lose(job, 1) == [0, 2, 3]
    job.all_enter(0, 2, 3)
    assert (job.membership.members, job.membership.target) == ([0, 2, 3], 3)
    assert job.take() == []
    assert job.membership.propose(4) is None
    assert job.take() == ["start 4"]
    job.membership.ready(4)
    assert job.take() == ["2: 0,2,3,4 to 0,2,3"]


def test_the_last_to_enter_says_that_all_go_on() -> None:
    job = job_of(3)
    lose(job, 0)
    assert [job.membership.entered(rank, 1) for rank in (1, 2)] == [False, True]
    assert not job.membership.entered(2, 1)


def test_newcomers_that_boot_do_not_notice() -> None:
    job = job_of(3)
    job.membership.propose(5)
    job.membership.ready(3)
    assert lose(job, 1) == [0, 2]
    assert job.membership.target == 4
    job.membership.ready(4)
    job.take()
    job.all_enter(0, 2)
    assert job.take() == ["2: 0,2,3,4 to 0,2"]


def test_newcomers_that_have_not_heard_of_the_change_are_taken_in_later() -> None:
    job = job_of(3)
    grown(job, 4)
    job.take()
    assert lose(job, 1) == [0, 2]
    assert (job.membership.version, job.membership.since) == (2, 1)
    assert job.membership.members == [0, 2]
    job.membership.entered(0, 1)  # on its way it has not heard that the change is taken back
    job.all_enter(0, 2)
    assert job.take() == ["3: 0,2,3 to 0,2"]


def test_newcomers_that_have_heard_of_the_change_go_on_with_the_others() -> None:
    job = job_of(3)
    grown(job, 5)
    job.membership.entered(0, 1)
    assert lose(job, 1) == [0, 2, 3, 4]
    assert lose(job, 3) == [0, 2, 4]
    assert (job.membership.version, job.membership.since) == (3, 1)
    job.take()
    job.all_enter(0, 2, 4)
    assert (job.membership.target, job.take()) == (3, [])


def test_a_newcomer_that_dies_among_survivors_is_only_a_newcomer() -> None:
    job = job_of(3)
    grown(job, 4)
    lose(job, 1)
    assert not job.membership.is_lost(3, KILLED)
    assert not job.membership.ended(3, finished=False)
    job.take()
    job.all_enter(0, 2)
    assert job.take() == []


def test_who_is_about_to_leave_leaves_at_once() -> None:
    job = job_of(4)
    job.membership.propose(3)
    assert lose(job, 1) == [0, 2, 3]  # 3 must hear that the others go on without it
    assert (job.membership.members, job.membership.target) == ([0, 2], 2)
    assert job.membership.is_lost(3, KILLED)  # others may still wait for it
    job.all_enter(0, 2)
    assert not job.membership.is_lost(3, KILLED)
    assert not job.membership.ended(3, finished=True)


def test_a_smaller_number_that_was_asked_for_stays() -> None:
    job = job_of(4)
    lose(job, 0)
    assert job.membership.propose(2) is None
    assert lose(job, 1) == [2, 3]
    assert job.membership.target == 2
    job.all_enter(2, 3)
    assert job.membership.members == [2, 3]


def test_who_ends_before_it_has_gone_on_is_lost_even_if_it_has_finished() -> None:
    job = job_of(4)
    lose(job, 0)
    assert job.membership.is_lost(1, 0)
    job.all_enter(1)
    assert not job.membership.is_lost(1, 0)


def test_who_finishes_on_its_way_to_a_change_ends_the_job_as_ever() -> None:
    job = job_of(2)
    job.membership.propose(1)
    assert not job.membership.is_lost(0, 0)


def test_a_lost_peer_is_replaced_as_often_as_the_job_allows() -> None:
    job = job_of(4, replaced=2)
    lose(job, 1)
    assert job.take() == []
    job.all_enter(0, 2, 3)
    assert job.take() == ["start 4"]
    assert not job.membership.ended(4, finished=False)
    assert job.take() == ["start 5"]
    assert not job.membership.ended(5, finished=False)
    assert (job.take(), job.membership.target) == ([], 3)


def test_what_cannot_be_started_is_started_later() -> None:
    job = job_of(2, replaced=9)
    actions = job.membership._actions
    job.membership._actions = dataclasses.replace(actions, start=lambda _wish: None)
    lose(job, 0)
    job.all_enter(1)
    job.membership.resume()
    assert job.take() == []
    job.membership._actions = actions
    job.membership.resume()
    assert job.take() == ["start 2"]


def test_a_host_is_left_alone_for_twice_as_long_each_time() -> None:
    now = 0.0
    cooldown = Cooldown(5, 15, lambda: now)
    for until in (5, 15, 30, 45):  # after 5, 10, 15 and 15 seconds
        assert cooldown.is_over(A)
        cooldown.begin(A)
        now = until - 0.1
        assert not cooldown.is_over(A)
        assert cooldown.is_over(B)
        now = until
    now += 16
    cooldown.begin(A)
    now += 5
    assert cooldown.is_over(A)


def test_newcomers_start_on_hosts_that_have_not_lost_a_peer() -> None:
    leader, hands = leader_of(2, Rules(watch=True, least=1, replaced=9, cooldown=(60, 60)))
    far = Hands()
    leader._hosts, leader._rooms = {A: hands, B: far}, {A: 2, B: 1}
    leader.ended(0, KILLED, stopped=False)
    leader.entered(1, 1)
    assert far.take() == ["start 2 1"]
    leader.started(2, "127.0.0.2:10000")
    leader.ended(2, 1, stopped=False)
    leader.advance()
    assert far.take() == ["forgive 2"]  # both hosts are left alone
    leader._cooldown = Cooldown(0, 0)
    leader.advance()
    assert hands.take()[-1] == "start 3 1"


def test_hosts_that_come_and_go_are_another_number_of_peers() -> None:
    leader, hands = leader_of(2, Rules(watch=True, least=1))
    far = Hands()
    leader._hosts[B] = far
    leader.offer([Host(A, 2), Host(ipaddress.ip_address("127.0.0.3"), 5)], 3)
    assert hands.take() == []  # nobody knows the third host
    leader.offer([Host(A, 2), Host(B, 4)], 3)
    assert far.take() == ["start 2 0"]
    leader.started(2, "127.0.0.2:10000")
    leader.ready(2)
    for number in range(3):
        leader.entered(number, 1)
    hands.take()
    leader.offer([Host(B, 4)], 3)
    assert hands.take() == ["publish 2 2 127.0.0.2:10000 to [0, 1]"]
    for number in range(3):
        leader.entered(number, 2)
    assert far.take()[-2:] == ["start 3 2", "start 4 2"]
    leader.offer([Host(A, 1)], 3)  # none of today's peers would stay
    assert hands.take() == []


def test_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(3, least=2)
    lose(job, 0)
    assert lose(job, 1) == []
    monkeypatch.setattr(membership, "MOST_VERSIONS", 0)
    assert lose(job_of(3), 1) == []
    assert not Job(3, 3).membership.is_lost(1, KILLED)


def test_a_spare_takes_the_place_of_a_lost_peer() -> None:
    job = Job(4, 6, Losses(1, replaced=2, spares=2))
    job.membership.resume()
    assert job.take() == ["start 4", "start 5"]
    job.membership.ready(5)
    assert job.take() == []  # it waits
    lose(job, 1)
    job.all_enter(0, 2, 3)
    assert job.take() == ["2: 0,2,3,5 to 0,2,3"]
    job.all_enter(0, 2, 3, 5)
    lose(job, 0)
    assert job.membership.target == 4
    job.take()
    job.all_enter(2, 3, 5)
    assert job.take() == []  # the other one is not ready yet
    job.membership.ready(4)
    assert job.take() == ["4: 2,3,5,4 to 2,3,5"]
    job.all_enter(2, 3, 5, 4)
    lose(job, 2)
    job.all_enter(3, 5, 4)
    assert job.membership.target == 3


def test_with_respawn_there_are_as_many_spares_again() -> None:
    job = Job(2, 4, Losses(1, replaced=math.inf, spares=1))
    job.membership.resume()
    job.membership.ready(2)
    assert job.take() == ["start 2"]
    lose(job, 0)
    job.all_enter(1)
    assert job.take() == ["start 3", "2: 1,2 to 1"]


def test_spares_are_no_members_when_others_are_asked_for() -> None:
    job = Job(2, 8, Losses(1, replaced=math.inf, spares=1))
    job.membership.resume()
    job.membership.ready(2)
    job.take()
    job.membership.propose(4)
    assert job.take() == ["start 3", "start 4"]
    job.membership.ready(3)
    assert job.take() == ["1: 0,1,2,3 to 0,1"]
    job.all_enter(0, 1, 2, 3)
    job.membership.ready(4)
    job.take()
    job.membership.propose(3)
    assert job.take() == ["2: 0,1,2 to 0,1,2,3"]
    job.all_enter(0, 1, 2, 3)
    assert job.take() == []


def test_a_spare_that_ends_is_replaced_as_a_lost_peer_is() -> None:
    job = Job(2, 4, Losses(1, replaced=1, spares=1))
    job.membership.resume()
    assert not job.membership.ended(2, finished=False)
    assert job.take() == ["start 2"]
    assert job.membership.target == 2


def test_a_program_that_fails_twice_before_it_is_ready_is_not_started_again() -> None:
    leader, hands = leader_of(2, Rules(watch=True, least=1, replaced=math.inf))
    leader.ended(1, KILLED, stopped=False)
    leader.entered(0, 1)
    for number, code in enumerate([KILLED, KILLED, 1, 2, 2], start=2):
        assert hands.take()[-1] == f"start {number} 1"
        leader.started(number, f"127.0.0.1:{10000 + number}")
        leader.ended(number, code, stopped=False)
    assert hands.take() == ["forgive 6"]
    assert hands.said[-2:] == [
        "newcomers failed twice in the same way before they were ready (exit code 2): no more are "
        "started in place of lost peers",
        "newcomer 6 has ended before it was taken in",
    ]
    assert (leader.over, leader.size) == (False, 1)
    assert refusals(leader, 0, 2) == [None]  # somebody may ask for another one
    assert hands.take() == ["start 7 1"]


def test_failures_of_newcomers_that_were_ready_are_not_those_of_the_program() -> None:
    leader, hands = leader_of(2, Rules(watch=True, least=1, replaced=math.inf, spares=1))
    leader.advance()
    for number in (2, 3, 4):
        assert hands.take()[-1] == f"start {number} 0"
        leader.started(number, f"127.0.0.1:{10000 + number}")
        leader.ready(number)
        leader.ended(number, 1, stopped=False)


def test_no_change_is_said_that_the_job_does_not_make() -> None:
    leader, hands = leader_of(3, Rules(watch=True, least=1, changes=1))
    leader.ended(2, KILLED, stopped=False)
    leader.entered(0, 1)
    leader.entered(1, 1)
    hands.said.clear()
    leader.change(1)
    ends = "the job ends: -max-changes allows 1 change of its peers, and this is one more"
    assert hands.said == [ends]
    leader, hands = leader_of(3, Rules(least=1, changes=0))
    leader.ended(2, KILLED, stopped=False)
    assert hands.said == [
        "the job ends: rank 2 (127.0.0.1:10002) was lost: killed by SIGKILL; -max-changes allows 0 "
        "changes of its peers, and this is one more"
    ]
