"""What benchmarks/pause.py makes of the logs of peers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("matplotlib")

import faulty_job
import pause
from faulty_job import Step


def made_by(pid: int, ends: Sequence[float], first: int = 1, size: int = 2) -> list[Step]:
    return [Step(end, first + n, 0, size, pid) for n, end in enumerate(ends)]


def test_the_pause_is_what_no_peer_makes_a_new_step_in_beyond_a_usual_one() -> None:
    steps = made_by(1, [1, 2, 3]) + made_by(2, [1.1, 2.1, 3.1, 8, 9])
    assert faulty_job.pause(steps, 3.5) == pytest.approx(8 - 3 - 1)


def test_steps_that_are_repeated_belong_to_the_pause() -> None:
    steps = made_by(1, [1, 2, 3]) + made_by(2, [7, 8, 9], first=2)
    assert faulty_job.pause(steps, 3.5) == pytest.approx(9 - 3 - 1)


def test_a_step_that_a_fault_does_not_hold_up_is_no_pause() -> None:
    assert faulty_job.pause(made_by(1, [1, 2, 3, 4, 5]), 3.5) == pytest.approx(0)


def test_a_spare_takes_over_with_its_first_step() -> None:
    steps = made_by(1, [1, 2, 3]) + made_by(2, [1, 2, 3, 4, 6]) + made_by(3, [6.5, 7], first=5)
    assert faulty_job.take_over(steps, 3.25) == pytest.approx(6.5 - 3.25 - 1)


def test_a_table_says_what_is_reached_and_what_has_no_result() -> None:
    rows = list(pause.table({pause.KILL: [0.5, 0.7, 1.5], pause.SPARE: [2.0]}))
    assert rows[2] == f"| {pause.KILL} | 3 | 0.70 s | 1.50 s | 1 s | reached |"
    assert rows[3] == f"| {pause.SPARE} | 1 | 2.00 s | 2.00 s | 1.5 s | missed |"
    assert rows[4] == f"| {pause.RESET} | 0 | no result | | | |"
