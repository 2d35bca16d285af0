"""Jobs whose peers are all started anew: after a failure, or as another number."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import ports
from tests.fault.elastic import PYTHON, SECRET, WATCH, two_hosts

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs


# Counts to 3 in a file; the peers are killed on the way.
COUNTS = """
import os, signal
import kungfu_tf as kf
runs = int(os.environ["KUNGFU_RESTARTS"])
kf.barrier()
print("run", runs, "rank", kf.rank(), "of", kf.size(), flush=True)
if runs < 2 and kf.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL if runs == 0 else signal.SIGSTOP)
kf.barrier()
"""


def test_a_job_is_started_anew_after_each_failure(kungfu_run: Jobs, tmp_path: Path) -> None:
    words = ("-auto-recover", "5", "-logdir", str(tmp_path / "logs"), "-np", "2")
    launch = kungfu_run(*words, *PYTHON, COUNTS)
    assert launch.wait() == 0, launch.err
    assert "[1] run 2 rank 1 of 2" in launch.out
    assert "failed first: killed by SIGKILL" in launch.err
    assert "starting all anew, 2 peers, 1 of at most 10 times after a failure" in launch.err
    assert "rank 1 is killed: no sign of life for 5 s" in launch.err
    assert "killed by SIGKILL (by kungfu-run: it gave no sign of life)" in launch.err
    assert (tmp_path / "logs/rank-1.stdout.log").read_text().count("run") == 3


def test_a_job_that_fails_each_time_ends(kungfu_run: Jobs) -> None:
    program = "import sys, kungfu_tf as kf; kf.barrier(); sys.exit(3)"
    launch = kungfu_run("-auto-recover", "0", "-restarts", "2", *PYTHON, program)
    assert launch.wait() == 3
    assert launch.err.count("starting all anew") == 2


@pytest.mark.parametrize(
    "program", ["import no_such_module", "import kungfu_tf as kf; kf.rank(); raise ValueError"]
)
def test_a_program_that_does_not_come_to_its_first_collective_is_started_anew_once(
    kungfu_run: Jobs, program: str
) -> None:
    launch = kungfu_run("-auto-recover", "0", *PYTHON, program)
    assert launch.wait() == 1
    assert launch.err.count("starting all anew") == 1
    assert "failed twice in the same way before its first collective" in launch.err


def test_two_hosts_start_anew_together(kungfu_run: Jobs) -> None:
    first, second = two_hosts(kungfu_run, 3, COUNTS, "-auto-recover", "5")
    assert [first.wait(), second.wait()] == [0, 0], first.err + second.err
    assert "[127.0.0.2:2] run 2 rank 2 of 3" in second.out


def test_in_reload_mode_all_peers_are_new(kungfu_run: Jobs) -> None:
    program = """
import os, sys
import kungfu_tf as kf
sizes = [1, 3, 2]
runs = int(os.environ["KUNGFU_RESTARTS"])
assert kf.size() == sizes[runs] and os.environ["KUNGFU_MEMBERSHIP"] == "elastic"
print("run", runs, flush=True)
progress = kf.init_progress()
print("progress", progress, flush=True)
if runs < 2 and kf.is_root():
    kf.propose_new_size(sizes[runs + 1])
while runs < 2 and not kf.resize(progress=progress + 10):
    pass
assert kf.detached() == (runs < 2)
"""
    launch = kungfu_run(*WATCH, "-elastic-mode", "reload", "-np", "1", *PYTHON, program)
    assert launch.wait() == 0, launch.err
    assert [launch.out.count(f"run {number}") for number in range(3)] == [1, 3, 2]
    assert [launch.out.count(f"progress {number}") for number in (0, 10, 20)] == [1, 3, 2]
    assert "starting all anew, 3 peers" in launch.err


def test_after_a_failure_nobody_need_have_saved_how_far_the_peers_said_they_were(
    kungfu_run: Jobs,
) -> None:
    program = """
import os, signal
import kungfu_tf as kf
runs = int(os.environ["KUNGFU_RESTARTS"])
progress = kf.init_progress()
print("run", runs, "of", kf.size(), "progress", progress, flush=True)
if runs < 2:
    kf.propose_new_size(2 + runs)
    while not kf.resize(progress=progress + 10):
        pass
if runs == 1 and kf.rank() == -1:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    words = ("-elastic-mode", "reload", "-auto-recover", "0", "-np", "1")
    launch = kungfu_run(*WATCH, *words, *PYTHON, program)
    assert launch.wait() == 0, launch.err
    assert launch.out.count("run 1 of 2 progress 10") == 2
    assert launch.out.count("run 2 of 3 progress 10") == 3, launch.out


def test_what_pipes_have_said_holds_for_all_that_start_anew(
    kungfu_run: Jobs, tmp_path: Path
) -> None:
    program = "import os, sys; sys.exit(os.environ['KUNGFU_RESTARTS'] == '0')"
    given = {"KUNGFU_SECRET_FILE": SECRET, "KUNGFU_CONFIG_TOKEN_FILE": "t" * 32}
    words = ("-auto-recover", "0", "-builtin-config-port", str(ports.take()[0]))
    with contextlib.ExitStack() as writers:
        for name, text in given.items():
            os.mkfifo(tmp_path / name, 0o600)
            writer = os.open(tmp_path / name, os.O_RDWR)
            writers.callback(os.close, writer)
            os.write(writer, f"{text}\n".encode())
        files = {name: str(tmp_path / name) for name in given}
        first, second = two_hosts(
            kungfu_run, 3, program, *words, of_the_first={"KUNGFU_SECRET": "", **files}
        )
        assert [first.wait(), second.wait()] == [0, 0], first.err + second.err
    said = first.out + first.err
    assert said.count("starting all anew, 3 peers") == 1, said
    assert said.count("token in KUNGFU_CONFIG_TOKEN") == 2, said
