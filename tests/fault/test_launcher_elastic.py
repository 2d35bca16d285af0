"""Jobs that change their size while they run (kungfu-run -w)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fault.elastic import PROGRAM, PYTHON, WATCH

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs


def test_a_job_grows_and_shrinks(kungfu_run: Jobs) -> None:
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, "PLAN = [4, 2, 3, 1]" + PROGRAM)
    assert launch.wait() == 0, launch.err
    lines = launch.out.splitlines()
    # In brackets the number of the process: the fifth came when two had left.
    for line in (
        "[0] membership 1 rank 0 of 4",
        "[1] membership 2 rank 1 of 2",
        "[0] membership 4 rank 0 of 1",
    ):
        assert line in lines
    assert sum("of 3" in line for line in lines) == 2 + ("[4] membership 3 rank 2 of 3" in lines)
    detached = [line for line in lines if "detached: True -1 0 -1 barrier" in line]
    assert len(detached) == 4
    assert "from now on 3 peers\n" in launch.err
    assert "from now on 1 peer\n" in launch.err


def test_without_a_newcomer_that_dies_the_others_go_on(kungfu_run: Jobs) -> None:
    program = """
import os
if os.environ["KUNGFU_MEMBERSHIP"] == "joining" and not os.path.exists("died"):
    open("died", "w").close()
    os._exit(3)
PLAN = [2]
"""
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, program + PROGRAM)
    assert launch.wait() == 0, launch.err
    assert "newcomer 1 has ended before it was taken in" in launch.err
    assert "[2] membership 1 rank 1 of 2" in launch.out


def test_a_newcomer_that_dies_before_the_others_meet_it_is_left_out(kungfu_run: Jobs) -> None:
    program = """
import os, threading, time
import kungfu_tf as kf
from kungfu_tf import peer
def wait_until(done):
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
if os.environ["KUNGFU_MEMBERSHIP"] == "joining":
    def die():
        wait_until(lambda: os.path.exists("announced"))
        os._exit(3)
    threading.Thread(target=die, daemon=True).start()
    kf.resize()
kf.propose_new_size(2)
wait_until(peer.outdated)
open("announced", "w").close()
wait_until(lambda: open("log").read().count("from now on") == 2)
kf.propose_new_size(1)  # the answer comes behind what the runner has said of that
while not kf.membership_version():
    kf.resize()
print("membership", kf.membership_version(), "rank", kf.rank(), "of", kf.size())
kf.barrier()
"""
    launch = kungfu_run(*WATCH, "-np", "1", "-logfile", "log", *PYTHON, program)
    assert launch.wait() == 0, launch.err
    assert "newcomer 1 has ended before it was taken in" in launch.err
    assert "membership 2 rank 0 of 1" in launch.out


def test_who_asks_for_what_cannot_be_meets_the_others_first(kungfu_run: Jobs) -> None:
    program = """
import kungfu_tf as kf
try:
    print(kf.rank(), kf.resize(n=5))
except kf.errors.FailedPreconditionError as error:
    print(kf.rank(), error)
kf.barrier()
"""
    launch = kungfu_run(*WATCH, "-np", "2", *PYTHON, program, KUNGFU_COLLECTIVE_TIMEOUT="20")
    assert launch.wait() == 0, launch.err
    assert "[1] 1 False\n" in launch.out
    assert "[0] 0 5 peers: there are 4 slots" in launch.out


def test_a_job_that_ends_dismisses_its_newcomers(kungfu_run: Jobs) -> None:
    program = """
import os
import kungfu_tf as kf
if os.environ["KUNGFU_MEMBERSHIP"] == "joining":
    kf.resize()
elif kf.is_root():
    kf.propose_new_size(3)
kf.barrier()
"""
    launch = kungfu_run(*WATCH, "-np", "2", *PYTHON, program)
    assert launch.wait() == 0, launch.err


def test_a_member_that_dies_ends_the_job(kungfu_run: Jobs) -> None:
    start, loop = PROGRAM.split("while", 1)
    dies = "if kf.rank() == 1: os._exit(7)\n"
    program = "PLAN = [2, 2]" + start + dies + "while" + loop
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, program)
    assert launch.wait() == 7
    assert "failed first: exit code 7" in launch.err


@pytest.mark.parametrize(
    ("size", "why"),
    [("0", "at least one"), ("-3", "at least one"), ("5", "5 peers: there are 4 slots")],
)
def test_sizes_that_cannot_be_are_errors(kungfu_run: Jobs, size: str, why: str) -> None:
    program = f"""
import kungfu_tf as kf
try:
    kf.propose_new_size({size})
except kf.errors.FailedPreconditionError as error:
    print(error)
assert not kf.resize()
"""
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, program)
    assert launch.wait() == 0, launch.err
    assert why in launch.out


def test_without_w_there_is_nobody_to_ask(kungfu_run: Jobs) -> None:
    program = """
import kungfu_tf as kf
assert not kf.resize() and not kf.detached()
try:
    kf.propose_new_size(2)
except kf.errors.FailedPreconditionError as error:
    print(error)
"""
    launch = kungfu_run("-np", "1", *PYTHON, program)
    assert launch.wait() == 0, launch.err
    assert "start it with kungfu-run -w" in launch.out


# Grows and shrinks a hundred times; rank 0 compares what it and its launcher have, after some and
# after all.
MANY = """
import os, sys, time
import kungfu_tf as kf
MOST = 100
before = None
def have():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    numbers = [int(fields[name].split()[0]) for name in ("Threads", "VmRSS")]
    files = [len(os.listdir(f"/proc/{process}/fd")) for process in ("self", os.getppid())]
    return [*files, *numbers]
def more_than(before):
    return any(now > then for now, then in zip(have()[:3], before))
first = os.environ["KUNGFU_MEMBERSHIP"] != "joining"
changed = False if first else kf.resize()
while True:
    if changed:
        kf.barrier()
        if first and kf.membership_version() in (MOST // 5, MOST):
            deadline = time.monotonic() + 100
            while before and more_than(before) and time.monotonic() < deadline:
                time.sleep(0.01)  # connections take leave, as fast as the other side does
            before = have()
            print("has", *before, flush=True)
    if kf.membership_version() == MOST:
        break
    changed = kf.resize(n=[3, 1, 2, 1][kf.membership_version() % 4])
    if kf.detached():
        break
    time.sleep(0.001)  # a step
"""


@pytest.mark.timeout(900)  # many newcomers start, one after the other
@pytest.mark.exhaustive
def test_a_hundred_changes_leave_nothing_behind(kungfu_run: Jobs) -> None:
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, MANY)
    assert launch.process.wait(800) == 0, launch.err
    before, after = [
        [int(number) for number in line.split()[2:]]
        for line in launch.out.splitlines()
        if "has" in line
    ]
    assert all(now <= then for now, then in zip(after[:3], before[:3], strict=True))
    assert after[3] < before[3] + 2048  # KiB
