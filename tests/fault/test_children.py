"""Processes that a peer forks or spawns: they know who the peer is, and are none themselves."""

import re
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

WHO = """
import os, subprocess, sys
import kungfu_tf as kf
from kungfu_tf import peer
seen = kf.rank(), kf.size(), kf.local_rank(), kf.local_size(), kf.host_count(), kf.uid()
seen += peer.name_of(0), peer.name_of(1), peer.membership_version(), kf.is_root()
"""
# Asks, then tries to take part.
CHILD = f"""
{WHO}try:
    kf.barrier()
except kf.errors.FailedPreconditionError as error:
    print(f"child of {{os.getppid()}} is {{seen}}: {{error}}", flush=True)
"""
PARENT = f"""
{WHO}kf.barrier()
print(f"child of {{os.getpid()}} is {{seen}}: ", flush=True)
"""


def told_by_children(launch: "Launch") -> list[str]:
    """Their reasons. Each has seen what its parent has seen."""
    told = [line.partition("]")[2] for line in launch.out.splitlines()]
    expected = [line for line in told if line.endswith("): ")]
    reasons = [line for line in told if line not in expected]
    assert sorted(line[: line.index("): ") + 3] for line in reasons) == sorted(expected)
    return [line[line.index("): ") + 3 :] for line in reasons]


def test_a_forked_child_knows_who_it_is_and_is_no_peer(kungfu_run: "Jobs") -> None:
    fork = f"""
if os.fork() == 0:
    exec({CHILD!r})
    os._exit(0)
os.wait()
kf.barrier()
"""
    launch = kungfu_run("-np", "2", sys.executable, "-c", PARENT + fork)
    assert launch.wait() == 0, launch.err
    reasons = told_by_children(launch)
    assert len(reasons) == 2
    assert all("forked from a peer and is none itself" in reason for reason in reasons)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_spawned_child_knows_who_it_is_and_is_no_peer(kungfu_run: "Jobs", transport: str) -> None:
    spawn = f"subprocess.run([sys.executable, '-c', {CHILD!r}], check=True)\nkf.barrier()"
    words = ("-np", "2", sys.executable, "-c", PARENT + spawn)
    launch = kungfu_run(*words, KUNGFU_TRANSPORT=transport)
    assert launch.wait() == 0, launch.err
    reasons = told_by_children(launch)
    assert len(reasons) == 2
    for reason in reasons:
        assert re.search(
            r": this process was started by peer \S+ \(process \d+\) and is none", reason
        )
        assert "end it" not in reason


def test_a_child_that_only_asks_does_not_become_the_peer(kungfu_run: "Jobs") -> None:
    ask = "import kungfu_tf as kf; print('asked', kf.rank(), kf.size(), flush=True)"
    program = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {ask!r}], check=True)
import kungfu_tf as kf
kf.barrier()
"""
    launch = kungfu_run("-np", "2", sys.executable, "-c", program)
    assert launch.wait() == 0, launch.err
    assert sorted(line.partition("]")[2] for line in launch.out.splitlines()) == [
        " asked 0 2",
        " asked 1 2",
    ]


def test_a_parent_is_told_that_its_child_is_the_peer(kungfu_run: "Jobs") -> None:
    child = "import sys, kungfu_tf as kf; kf.init(); print('up', flush=True); sys.stdin.read()"
    program = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=-1, stdout=-1)
child.stdout.readline()
import kungfu_tf as kf
try:
    kf.barrier()
except kf.errors.FailedPreconditionError as error:
    print(child.pid, error, flush=True)
child.communicate()
"""
    launch = kungfu_run("-np", "1", sys.executable, "-c", program)
    assert launch.wait() == 0, launch.err
    assert re.search(
        r"(\d+) barrier .*: process \1, which this one has started, is peer", launch.out
    )


def test_where_ranks_change_a_spawned_child_is_not_told_old_ones(kungfu_run: "Jobs") -> None:
    ask = """
import kungfu_tf as kf
try:
    kf.rank()
except kf.errors.FailedPreconditionError as error:
    print(error, flush=True)
"""
    program = PARENT + f"subprocess.run([sys.executable, '-c', {ask!r}], check=True)"
    launch = kungfu_run("-w", "-np", "1", sys.executable, "-c", program)
    assert launch.wait() == 0, launch.err
    assert "give this process its rank as an argument" in launch.out
