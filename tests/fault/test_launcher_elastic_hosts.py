"""Jobs of several hosts that change their size while they run."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from tests.fault.elastic import PROGRAM, two_hosts

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs


def test_a_job_grows_and_shrinks_over_two_hosts(kungfu_run: Jobs) -> None:
    first, second = two_hosts(kungfu_run, 1, "PLAN = [4, 2, 3, 1]" + PROGRAM)
    assert first.wait() == 0, first.err
    assert second.wait() == 0, second.err
    assert "[127.0.0.1:0] membership 4 rank 0 of 1" in first.out
    assert "[127.0.0.1:0] membership 1 rank 0 of 4" in first.out
    assert len(re.findall(r"^\[127.0.0.2:\d\] membership 1 rank [23] of 4$", second.out, re.M)) == 2
    assert len(re.findall(r"^\[127.0.0.2:\d\] detached", second.out, re.M)) >= 2


def test_the_first_failure_ends_the_job_on_both_hosts(kungfu_run: Jobs) -> None:
    program = """
import os, time
import kungfu_tf as kf
try:
    kf.barrier()
    if kf.rank() == 2:
        os._exit(7)
    kf.barrier()
finally:
    time.sleep(1000)  # it is the runner that ends this one
"""
    first, second = two_hosts(kungfu_run, 4, program)
    assert second.wait() == 7, second.err
    assert "rank 2 on 127.0.0.2" in second.err
    assert first.wait() != 0
    assert re.search(r"rank 2 \(127.0.0.2:\d+\) failed first: exit code 7", first.err)


def test_sigint_on_one_host_ends_all(kungfu_run: Jobs) -> None:
    waits = "import time\nprint('here', flush=True)\ntime.sleep(1000)"
    first, second = two_hosts(kungfu_run, 4, waits)
    first.until_printed("here", 2)
    second.until_printed("here", 2)
    second.process.send_signal(signal.SIGINT)
    assert [first.wait(), second.wait()] == [130, 130]


def test_a_warning_on_one_host_reaches_the_peers_of_all(kungfu_run: Jobs) -> None:
    waits = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("here", flush=True)
print("told", signal.sigwait([signal.SIGUSR1]).name, flush=True)
"""
    first, second = two_hosts(kungfu_run, 4, waits)
    first.until_printed("here", 2)
    second.until_printed("here", 2)
    second.process.send_signal(signal.SIGUSR1)
    assert [first.wait(), second.wait()] == [0, 0]
    assert [launch.out.count("told SIGUSR1") for launch in (first, second)] == [2, 2]


def test_a_host_without_its_runner_ends_the_job(kungfu_run: Jobs) -> None:
    program = """
import time
import kungfu_tf as kf
if kf.rank() == 0 and kf.size() == 3:
    kf.propose_new_size(4)
print("here", flush=True)
time.sleep(1000)
"""
    first, second = two_hosts(kungfu_run, 3, program)
    second.until_printed("here", 2)  # the newcomer, too
    second.process.kill()
    assert first.wait() == 1
    assert "the job ends: the runner on 127.0.0.2 is gone" in first.err
