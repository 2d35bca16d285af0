"""What a runner decides when a peer, or a whole host, is asked to go by SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from kungfu_tf.launcher.channels.control import Answer
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader import Leader
from tests.python.launcher.runners import Two, leader_of

SURVIVES = Rules(least=1)
NAMES = [f"127.0.0.1:{10000 + rank}" for rank in range(3)]


def answer_to(question: Callable[[int, Answer], None], number: int) -> str | None:
    answers: list[str | None] = []
    question(number, answers.append)
    (answer,) = answers
    return answer


def test_a_peer_leaves_and_the_others_go_on_at_once() -> None:
    leader, hands = leader_of(3, SURVIVES)
    assert answer_to(leader.notice, 1) is None
    assert hands.take() == []
    assert answer_to(leader.leave, 1) is None
    who = f"rank 1 ({NAMES[1]}) leaves: SIGTERM"
    assert hands.take() == [
        f"publish 1 0 {NAMES[0]} {NAMES[2]} to [0, 2, 1]: {who}",
        "forgive 1",
    ]
    leader.ended(1, 0, stopped=True)
    assert hands.take() == [f"finished {NAMES[1]}"]
    assert (leader.size, leader.code, leader.over) == (2, 0, False)


def test_where_too_few_would_be_left_the_whole_job_ends() -> None:
    leader, hands = leader_of(2, Rules(least=2))
    assert "too few" in str(answer_to(leader.notice, 1))
    assert hands.take() == ["stop all 15 143"]
    assert leader.code == 143
    assert answer_to(leader.notice, 0) == "the job is ending"
    assert answer_to(leader.leave, 0) == "the job is ending"


def test_another_peer_may_leave_between_notice_and_step() -> None:
    leader, hands = leader_of(2, SURVIVES)
    assert answer_to(leader.notice, 0) is None
    assert answer_to(leader.notice, 1) is None
    assert answer_to(leader.leave, 1) is None
    hands.take()
    assert "too few" in str(answer_to(leader.leave, 0))
    assert hands.take() == ["stop all 15 143"]


def test_a_program_that_sigterm_ends_at_once_is_lost() -> None:
    leader, hands = leader_of(3, SURVIVES)
    leader.ended(2, -signal.SIGTERM, stopped=False)
    (published, forgiven) = hands.take()
    assert published.endswith(f"rank 2 ({NAMES[2]}) was lost: killed by SIGTERM")
    assert forgiven == "forgive 2"


def test_one_that_is_replaced_keeps_the_wanted_number() -> None:
    leader, hands = leader_of(3, Rules(watch=True, least=1, replaced=9))
    assert answer_to(leader.leave, 0) is None
    hands.take()
    for rank in (1, 2):
        leader.entered(rank, 1)
    assert hands.take() == ["start 3 1"]


@pytest.fixture
def two() -> Iterator[Two]:
    two = Two(rules=Rules(watch=True, least=1))
    yield two
    two.close()


def test_questions_of_another_host_are_passed_on(two: Two) -> None:
    answers: list[str | None] = []
    two.until(lambda: two.follower.outlives)
    two.leader.change(3)
    two.leader.started(1, "127.0.0.1:10001")
    two.leader.ready(1)
    two.until(lambda: two.there.take() == ["start 2 0"])
    two.follower.started(2, "127.0.0.2:10001")
    two.follower.ready(2)
    two.until(lambda: two.leader.size == 3)
    for number in (0, 1):
        two.leader.entered(number, 1)
    two.follower.entered(2, 1)
    two.until(lambda: two.there.take())
    two.follower.notice(2, answers.append)
    two.follower.leave(2, answers.append)
    two.until(lambda: len(answers) == 2)
    assert answers == [None, None]
    published, forgiven = two.there.take()
    assert published.startswith("publish 2 1 127.0.0.1:10000 127.0.0.1:10001 to [2]: rank 2 ")
    assert forgiven == "forgive 2"
    assert not two.leader.outlives


def test_the_job_outlives_no_leader() -> None:
    leader, _ = leader_of(2, SURVIVES)
    assert isinstance(leader, Leader) and not leader.outlives
