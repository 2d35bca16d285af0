"""Which failure came first, and what is said of it."""

import dataclasses

import pytest

from kungfu_tf.launcher.output import summary, verdict
from kungfu_tf.launcher.output.outcome import Outcome, first_failure

WELL = Outcome(
    rank=0,
    host="10.0.0.1",
    pid=100,
    code=0,
    seconds=2.0,
    gone=9.0,
    stopped=False,
    forgiven=False,
    given_up=False,
    overdue=False,
    leaving=False,
    reports=(),
    earlier=(),
    last_lines=(),
)


def ended(rank: int, code: int, *, gone: float, stopped: bool = False, report: str = "") -> Outcome:
    return dataclasses.replace(
        WELL,
        rank=rank,
        pid=100 + rank,
        code=code,
        gone=gone,
        stopped=stopped,
        reports=(report,) if report else (),
        last_lines=(f"last of {rank}",),
    )


@pytest.mark.parametrize(
    ("code", "given_up", "how"),
    [
        (-9, True, "killed by SIGKILL (by kungfu-run: it gave no sign of life), after"),
        (-9, False, "killed by SIGKILL (by the kernel if memory ran out: see dmesg), after"),
        (1, True, "exit code 1, after"),
        (-15, False, "killed by SIGTERM, after"),
    ],
)
def test_who_killed_it(code: int, given_up: bool, how: str) -> None:
    outcome = dataclasses.replace(ended(1, code, gone=1.0), given_up=given_up)
    assert f"failed first: {how}" in summary.describe([outcome])


def test_who_was_lost_before_is_named_with_its_last_lines() -> None:
    lost = dataclasses.replace(ended(2, 3, gone=1.0), forgiven=True)
    lines = summary.describe([ended(0, 1, gone=2.0), WELL, lost]).splitlines()
    assert lines[0] == "rank 2 on 10.0.0.1 (pid 102) was lost: exit code 3, after 2.0 s"
    assert lines[1:3] == ["  its last lines:", "  | last of 2"]
    assert lines[3].startswith("rank 0 on 10.0.0.1 (pid 100) failed then: exit code 1")
    assert verdict.conclude([WELL, lost], forced=None, others=0) == (0, None)


def test_who_had_to_be_killed_is_named() -> None:
    late = dataclasses.replace(ended(1, -9, gone=2.0, stopped=True), overdue=True)
    line = (
        "rank 1 on 10.0.0.1 (pid 101): stopped (killed by SIGKILL: it had not ended within"
        " KUNGFU_GRACE)"
    )
    others = [ended(0, 1, gone=1.0), ended(2, -15, gone=2.0, stopped=True)]
    assert line in summary.describe([*others, late]).splitlines()
    by_signal = verdict.conclude([*others[1:], late], forced=143, others=0)
    assert by_signal == (143, f"stopped by SIGTERM; no peer failed\n{line}")
    in_time = dataclasses.replace(late, code=0)
    assert verdict.conclude([in_time], forced=143, others=0).reason == (
        "stopped by SIGTERM; no peer failed"
    )


def test_who_went_first_failed_first() -> None:
    assert first_failure([WELL]) is None
    assert first_failure([ended(0, -15, gone=1, stopped=True)]) is None
    outcomes = [ended(0, 1, gone=3.0), ended(1, 1, gone=2.0), ended(2, -15, gone=1, stopped=True)]
    first = first_failure(outcomes)
    assert first is not None
    assert first.rank == 1


def test_of_two_at_the_same_time_the_one_that_was_killed_failed_first() -> None:
    first = first_failure([ended(0, 1, gone=2.0), ended(3, -9, gone=2.0)])
    assert first is not None
    assert first.rank == 3


def test_the_summary_names_rank_host_pid_cause_last_lines_and_what_the_others_saw() -> None:
    text = summary.describe(
        [
            ended(0, 1, gone=5.0, report="all_reduce 'w' from rank 1: connection reset"),
            ended(1, -9, gone=4.0),
            ended(2, -15, gone=6.0, stopped=True),
        ]
    )
    assert text.splitlines() == [
        "rank 1 on 10.0.0.1 (pid 101) failed first: killed by SIGKILL (by the kernel if memory ran"
        " out: see dmesg), after 2.0 s",
        "  its last lines:",
        "  | last of 1",
        "rank 0 on 10.0.0.1 (pid 100): exit code 1",
        "  reported: all_reduce 'w' from rank 1: connection reset",
        "rank 2 on 10.0.0.1 (pid 102): stopped (killed by SIGTERM)",
    ]


def test_who_has_handled_an_error_may_have_failed_first() -> None:
    failed = dataclasses.replace(ended(1, 1, gone=2.0), earlier=("get 'x': not found",))
    outcomes = [ended(0, 1, gone=5.0), failed]
    assert first_failure(outcomes) is failed
    assert "  reported long before: get 'x': not found" in summary.describe(outcomes).splitlines()


# Also where the runner saw both ends at once, and in the other order.
@pytest.mark.parametrize("gone", [2.0, 3.1])
def test_who_ended_well_while_the_others_waited_is_named_first(gone: float) -> None:
    left = dataclasses.replace(ended(1, 0, gone=gone), earlier=("get 'x': not found",))
    waited = [
        ended(rank, 1, gone=gone, report="all_reduce 'w': rank 1: connection closed by peer")
        for rank, gone in ((0, 3.0), (2, 4.0))
    ]
    lines = summary.describe([waited[0], left, waited[1]]).splitlines()
    assert lines[0] == (
        "rank 1 on 10.0.0.1 (pid 101) may have been waited for: exit code 0, after 2.0 s"
    )
    assert lines[1] == "  reported long before: get 'x': not found"
    assert lines[2].startswith("rank 0 on 10.0.0.1 (pid 100) failed first: exit code 1")
    assert sum(line.startswith("rank 1") for line in lines) == 1


def test_who_ended_well_is_not_named_where_it_cannot_be_the_cause() -> None:
    report = "all_reduce 'w': rank 1: connection closed by peer"
    by_itself = [ended(0, 1, gone=3.0), ended(1, 0, gone=2.0)]
    later = [ended(0, 1, gone=3.0, report=report), ended(1, 0, gone=5.0)]
    told_of_it = [ended(0, 1, gone=3.0, report=report), ended(1, 0, gone=2.0, report=report)]
    asked_to = [ended(0, 1, gone=3.0, report=report), ended(1, 0, gone=2.0, stopped=True)]
    for outcomes in (by_itself, later, told_of_it, asked_to):
        assert summary.describe(outcomes).startswith("rank 0 on 10.0.0.1 (pid 100) failed first")


def test_who_was_let_go_long_before_is_not_why_the_others_failed() -> None:
    failed = ended(0, 1, gone=100.0, report="all_reduce 'w': rank 1: connection closed by peer")

    def first_line(*, gone: float, leaving: bool) -> str:
        left = dataclasses.replace(ended(1, 0, gone=gone), leaving=leaving)
        return summary.describe([left, failed]).splitlines()[0]

    assert "rank 0 on 10.0.0.1 (pid 100) failed first" in first_line(gone=50.0, leaving=True)
    assert "may have been waited for" in first_line(gone=99.0, leaving=True)
    assert "may have been waited for" in first_line(gone=50.0, leaving=False)


def test_of_a_traceback_that_is_told_twice_only_what_is_new_is_shown() -> None:
    frames = ['  File "train.py", line 3, in gen', "    yield 1 / zero", "          ~~^~~~~~", ""]
    traceback = ["Traceback (most recent call last):", *frames, "ZeroDivisionError: by zero"]
    failed = dataclasses.replace(
        ended(1, 1, gone=1.0), last_lines=("", *traceback, "", "Detected at node", *traceback)
    )
    lines = summary.describe([failed]).splitlines()
    assert [line.removeprefix("  | ") for line in lines[2:]] == [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in gen',
        "    yield 1 / zero",
        "ZeroDivisionError: by zero",
        "Detected at node",
    ]
