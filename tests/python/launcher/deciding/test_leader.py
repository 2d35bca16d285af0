"""What the runner that leads decides when peers end, and when another number is asked for."""

import pytest

from kungfu_tf.launcher.deciding import membership
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader import Leader
from tests.python.launcher.runners import A, B, Hands, leader_of, refusals


def test_a_job_of_one_host_asks_nobody() -> None:
    leader, _ = leader_of(1, Rules())
    assert "kungfu-run -w" in str(refusals(leader, 0, 2)[0] or leader.change(2))
    leader.ended(0, 0, stopped=False)
    assert leader.over


def test_after_a_failure_all_start_anew() -> None:
    leader, hands = leader_of(2, Rules(recoveries=1))
    leader.ended(1, -9, stopped=False)
    assert hands.take()[-1] == "stop all 0 137"
    leader.ended(0, 1, stopped=False)  # the failure of the first made it fail, too
    assert leader.over
    assert leader.recovering
    assert leader.again == 2


@pytest.mark.parametrize(("before", "again"), [(None, 2), (2, 2), (1, None)])
def test_a_program_that_fails_before_any_peer_is_up_is_started_anew_once(
    before: int | None, again: int | None
) -> None:
    leader, hands = leader_of(2, Rules(recoveries=9, early_failure=before))
    hands.has_begun = False
    leader.ended(1, 1, stopped=False)
    assert (leader.again, leader.early_failure) == (again, 1)


def test_a_failure_among_peers_that_were_up_is_none_of_these() -> None:
    leader, _ = leader_of(2, Rules(recoveries=9, early_failure=1))
    leader.ended(1, 1, stopped=False)
    assert (leader.again, leader.early_failure) == (2, None)


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
    leader.stop_all(2, 130)
    assert leader.again is None


def test_in_reload_mode_all_leave_and_start_anew() -> None:
    leader, hands = leader_of(2, Rules(watch=True, reload=True))
    assert leader.change(5) == "5 peers: there are 4 slots"
    assert leader.change(2) is None
    assert hands.take() == []
    assert leader.change(3) is None
    assert hands.take() == ["publish 1 1  to [0, 1]"]
    assert leader.change(4) is None  # what was asked for last counts
    for number in (0, 1):
        leader.entered(number, 1)
        leader.ended(number, 0, stopped=False)
    assert (leader.over, leader.again) == (True, 4)


def test_in_reload_mode_a_job_that_finishes_before_its_peers_leave_does_not_start_anew() -> None:
    leader, _ = leader_of(2, Rules(watch=True, reload=True))
    assert leader.change(3) is None
    leader.ended(0, 0, stopped=False)
    assert leader.change(4) is None
    leader.ended(1, 0, stopped=False)
    assert (leader.over, leader.again) == (True, None)


def grown(size: int) -> tuple[Leader, Hands]:
    """A job of one peer that is about to take in the others."""
    leader, hands = leader_of(1, Rules(watch=True))
    leader.change(size)
    for number in range(1, size):
        leader.started(number, f"127.0.0.1:{10000 + number}")
        leader.ready(number)
    hands.take()
    return leader, hands


def test_without_a_newcomer_that_dies_unmet_the_others_go_on_and_hear_of_no_failure() -> None:
    leader, hands = grown(3)
    leader.ended(1, -9, stopped=False)
    peers = "127.0.0.1:10000 127.0.0.1:10002"
    assert hands.take() == ["forgive 1", f"publish 2 1 {peers} to [0]"]
    leader.entered(0, 2)
    assert hands.take() == [f"publish 2 1 {peers} to [2]"]


def test_a_newcomer_that_dies_when_it_was_told_ends_the_job() -> None:
    leader, hands = grown(2)
    leader.entered(0, 1)
    hands.take()
    leader.ended(1, -9, stopped=False)
    assert hands.take() == ["failed 127.0.0.1:10001 killed by SIGKILL", "stop all 0 137"]


def test_one_that_cannot_be_replaced_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_VERSIONS", 1)
    leader, hands = grown(2)
    leader.ended(1, -9, stopped=False)
    assert "failed 127.0.0.1:10001 killed by SIGKILL" in hands.take()


def test_who_fails_to_leave_ends_the_job() -> None:
    leader, hands = leader_of(2, Rules(watch=True, reload=True))
    leader.change(3)
    leader.ended(1, 1, stopped=False)
    assert hands.take()[-1] == "stop all 0 1"
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
    leader.stop_all(15, 143)
    assert leader.over


NAMES = [f"127.0.0.1:{10000 + number}" for number in range(3)]


@pytest.mark.parametrize("code", [-9, -11, -7, -15])
def test_the_others_survive_what_comes_from_the_machine(code: int) -> None:
    leader, hands = leader_of(3, Rules(least=2))
    leader.ended(1, code, stopped=False)
    told, forgiven = hands.take()
    assert forgiven == "forgive 1"
    lost = f"rank 1 ({NAMES[1]}) was lost: killed"
    assert told.startswith(f"publish 1 0 {NAMES[0]} {NAMES[2]} to [0, 2]: {lost}")
    assert leader.size == 2
    leader.ended(0, -9, stopped=False)  # too few are left
    assert hands.take() == [f"failed {NAMES[0]} killed by SIGKILL", "stop all 0 137"]


@pytest.mark.parametrize("code", [1, -6, -2])
def test_an_error_of_the_program_ends_a_job_that_survives(code: int) -> None:
    leader, hands = leader_of(3, Rules(least=1))
    leader.ended(1, code, stopped=False)
    assert hands.take()[-1].startswith("stop all 0 ")


@pytest.mark.parametrize("code", [1, -6, -15, -9])
def test_the_others_survive_an_error_of_the_program_if_asked_to(code: int) -> None:
    leader, hands = leader_of(3, Rules(least=2, outlives_errors=True))
    leader.ended(1, code, stopped=False)
    assert hands.take()[0].startswith(f"publish 1 0 {NAMES[0]} {NAMES[2]} to [0, 2]: rank 1")
    leader.ended(0, code, stopped=False)  # too few are left
    assert hands.take()[-1].startswith("stop all 0 ")


def test_peers_change_as_often_as_is_allowed() -> None:
    leader, hands = leader_of(3, Rules(least=1, changes=1))
    leader.ended(2, -9, stopped=False)
    assert hands.take()[0].startswith("publish 1 0")
    leader.ended(1, -9, stopped=False)
    assert hands.take()[0] == "stop all 0 1"


def test_the_others_survive_a_lost_host() -> None:
    leader, hands = leader_of(3, Rules(least=1))
    far, leader._places[1], leader._places[2] = Hands(), B, B
    leader._hosts = {A: hands, B: far}
    leader.lost(B, "is gone")
    lost = f"rank 1 ({NAMES[1]}) and rank 2 ({NAMES[2]}) were lost: the runner on {B} is gone"
    assert hands.take() == [f"publish 1 0 {NAMES[0]} to [0]: {lost}"]
    leader.ended(0, 0, stopped=False)
    assert (leader.over, leader.code) == (True, 0)


def test_too_few_survive_a_lost_host() -> None:
    leader, hands = leader_of(3, Rules(least=2))
    leader._places[1] = leader._places[2] = B
    leader.lost(B, "is gone")
    assert hands.take()[-1] == "stop all 0 1"


def test_a_host_whose_peers_have_finished_is_not_missed() -> None:
    leader, hands = leader_of(2, Rules(least=1))
    leader._places[1] = B
    leader._hosts[B] = Hands()
    leader.ended(1, 0, stopped=False)
    hands.take()
    leader.lost(B, "is gone")
    assert hands.take() == []


def test_who_finishes_before_it_has_gone_over_is_lost_to_the_others() -> None:
    leader, hands = leader_of(3, Rules(least=1))
    leader.ended(2, -9, stopped=False)
    hands.take()
    leader.entered(1, 1)
    leader.ended(0, 0, stopped=False)
    finished = f"rank 0 ({NAMES[0]}) has finished"
    assert hands.take()[0] == f"publish 2 0 {NAMES[1]} to [1]: {finished}"
    leader.entered(1, 2)
    leader.ended(1, 0, stopped=False)
    assert hands.take() == [f"finished {NAMES[1]}"]
    assert leader.over


def test_who_has_finished_is_no_survivor() -> None:
    leader, hands = leader_of(3, Rules(least=1))
    leader.ended(0, 0, stopped=False)
    leader.ended(1, -9, stopped=False)
    assert hands.take()[-2].startswith(f"publish 1 0 {NAMES[2]} to [2]: rank 1")
