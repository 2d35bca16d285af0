"""What a runner decides when its job changes size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kungfu_tf.launcher.deciding import membership
from kungfu_tf.launcher.deciding.membership import Actions, Losses, Membership

NO_LOSSES = Losses()


def _list(ranks: Sequence[int]) -> str:
    return ",".join(map(str, ranks))


class Job:
    """Notes what is done; processes are numbers."""

    def __init__(self, size: int, slots: int, losses: Losses = NO_LOSSES) -> None:
        self.done: list[str] = []
        self._next = size
        actions = Actions(
            self._start, self._stop, lambda _version: True, self._publish, lambda _text: None
        )
        self.membership = Membership(range(size), slots, actions, losses)

    def _start(self, wish: str | None) -> int:
        self._next += 1
        self.done.append(f"start {self._next - 1}" + (f" at {wish}" if wish else ""))
        return self._next - 1

    def _stop(self, rank: int) -> None:
        self.done.append(f"stop {rank}")

    def _publish(
        self, version: int, since: int, members: Sequence[int], told: Sequence[int]
    ) -> None:
        instead = "" if since == version else f" since {since}"
        self.done.append(f"{version}{instead}: {_list(members)} to {_list(told)}")

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done

    def all_enter(self, *ranks: int) -> None:
        for rank in ranks:
            self.membership.entered(rank, self.membership.version)


def test_newcomers_boot_before_they_are_taken_in() -> None:
    job = Job(1, slots=4)
    assert job.membership.propose(3) is None
    assert job.take() == ["start 1", "start 2"]
    job.membership.ready(2)
    assert job.take() == []
    job.membership.ready(1)
    assert job.take() == ["1: 0,1,2 to 0"]
    job.membership.entered(0, 1)
    assert job.take() == ["1: 0,1,2 to 1,2"]


def test_the_first_ones_stay() -> None:
    job = Job(4, slots=4)
    assert job.membership.propose(2) is None
    assert job.take() == ["1: 0,1 to 0,1,2,3"]


def test_a_change_is_over_when_all_have_entered_it() -> None:
    job = Job(3, slots=4)
    job.membership.propose(2)
    job.membership.propose(1)
    job.membership.propose(4)
    assert job.take() == ["1: 0,1 to 0,1,2"]
    job.all_enter(0, 1)
    job.membership.entered(2, 0)
    assert job.take() == []
    job.membership.ended(2, finished=True)  # as one that has left does
    assert job.take() == ["start 3", "start 4"]


def test_what_was_proposed_last_counts() -> None:
    job = Job(1, slots=4)
    job.membership.propose(4)
    assert job.take() == ["start 1", "start 2", "start 3"]
    job.membership.propose(2)
    assert job.take() == ["stop 3", "stop 2"]
    job.membership.ready(1)
    assert job.take() == ["1: 0,1 to 0"]
    assert not job.membership.ended(3, finished=False)


def test_a_proposal_can_be_taken_back() -> None:
    job = Job(2, slots=4)
    job.membership.propose(3)
    job.membership.propose(2)
    assert job.take() == ["start 2", "stop 2"]


def test_without_a_newcomer_that_dies_the_others_go_on() -> None:
    job = Job(1, slots=4)
    job.membership.propose(3)
    job.membership.ready(1)
    assert not job.membership.ended(2, finished=False)
    assert job.take() == ["start 1", "start 2", "1: 0,1 to 0"]


def test_a_newcomer_that_dies_before_anybody_meets_it_is_left_out() -> None:
    job = Job(2, slots=4)
    job.membership.propose(4)
    job.membership.ready(2)
    job.membership.ready(3)
    assert job.take() == ["start 2", "start 3", "1: 0,1,2,3 to 0,1"]
    assert not job.membership.ended(2, finished=False)
    assert job.take() == ["2 since 1: 0,1,3 to 0,1"]
    assert job.membership.is_settled
    job.membership.entered(0, 1)  # as it had before it heard of that
    assert job.take() == []
    job.membership.entered(0, 2)
    assert job.take() == ["2 since 1: 0,1,3 to 3"]
    assert job.membership.ended(3, finished=False)  # rank 0 may have begun to talk to it


def test_who_takes_the_place_of_several_memberships_names_the_first() -> None:
    job = Job(1, slots=4)
    job.membership.propose(2)
    job.membership.ready(1)
    job.all_enter(0, 1)
    job.membership.propose(4)
    job.membership.ready(2)
    job.membership.ready(3)
    job.take()
    assert not job.membership.ended(2, finished=False)
    assert not job.membership.ended(3, finished=True)
    assert job.take() == ["3 since 2: 0,1,3 to 0,1", "4 since 2: 0,1 to 0,1"]
    job.all_enter(0, 1)
    job.membership.propose(1)
    assert job.take() == ["5: 0 to 0,1"]


def test_a_member_that_dies_is_a_loss() -> None:
    job = Job(2, slots=2)
    assert job.membership.ended(1, finished=False)


def test_who_is_named_stays_and_the_others_leave_first() -> None:
    job = Job(3, slots=4)
    assert job.membership.propose_members([1, 2], ["a", "b"]) is None
    assert job.take() == ["1: 1,2 to 0,1,2"]  # rank 0 has left
    assert not job.membership.is_settled
    job.all_enter(0, 1, 2)
    assert job.take() == ["start 3 at a", "start 4 at b"]
    job.membership.ready(3)
    job.membership.ready(4)
    assert job.take() == ["2: 1,2,3,4 to 1,2"]
    assert job.membership.is_settled


def test_newcomers_get_ready_while_others_leave() -> None:
    job = Job(2, slots=4)
    job.membership.propose_members([0, 1], ["a", "b"])
    job.membership.propose_members([0, 3], ["c"])
    assert job.take() == ["start 2 at a", "start 3 at b", "stop 2", "1: 0 to 0,1"]
    job.membership.ready(3)
    job.all_enter(0, 1)
    assert job.take() == ["start 4 at c"]
    assert not job.membership.ended(4, finished=False)
    assert job.take() == ["2: 0,3 to 0"]


def test_a_number_counts_instead_of_names_that_were_proposed_before() -> None:
    job = Job(3, slots=4)
    job.membership.propose_members([0, 2], [])
    job.membership.propose(3)
    assert job.take() == ["1: 0,2 to 0,1,2"]
    job.all_enter(0, 1, 2)
    assert job.take() == ["start 3"]


def test_somebody_who_knows_the_model_stays() -> None:
    job = Job(2, slots=4)
    job.membership.propose(3)
    assert job.take() == ["start 2"]
    assert "no other peer knows the model" in str(job.membership.propose_members([2], ["a"]))
    assert job.take() == []


def test_a_job_that_ends_changes_no_more() -> None:
    job = Job(2, slots=4)
    assert not job.membership.ended(1, finished=True)
    assert job.membership.propose(3) == "the job is ending"
    assert job.take() == []


@pytest.mark.parametrize("ready", [False, True])
def test_a_job_that_ends_dismisses_its_newcomers(ready: bool) -> None:
    job = Job(1, slots=2)
    job.membership.propose(2)
    if ready:
        job.membership.ready(1)
    assert job.membership.awaits(1)
    job.membership.ended(0, finished=True)
    assert job.take()[-1] == "stop 1"


@pytest.mark.parametrize(("size", "why"), [(0, "at least one"), (-1, "at least"), (5, "4 slots")])
def test_sizes_that_cannot_be_are_refused(size: int, why: str) -> None:
    job = Job(2, slots=4)
    refusal = job.membership.propose(size)
    assert refusal is not None and why in refusal
    assert job.take() == []


def test_there_is_an_end_to_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_VERSIONS", 1)
    job = Job(2, slots=2)
    assert job.membership.propose(1) is None
    job.all_enter(0, 1)
    refusal = job.membership.propose(2)
    assert refusal is not None and "as often as it can" in refusal
