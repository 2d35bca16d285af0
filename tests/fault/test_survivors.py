"""Jobs that lose a host, or a peer that has stopped: the others repeat their step, and go on."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from tests.fault.elastic import PYTHON
from tests.fault.hosts import A, B, Hosts, ip, launch_on

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

# Each sum is a number of peers. All go on until there are two, and ten sums more.
PROGRAM = """
import os
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
core = libraries.core()
libraries.check(core.kungfu_init())
print("pid", core.kungfu_rank(), os.getpid(), flush=True)
sums = []
while sums[-10:] != [2.0] * 10:
    sums.append(AllReduce("x", 1 << 18).wait()[0])
    if len(sums) == 5:
        print("ready", flush=True)
before = [value for value in sums if value != 2.0]
print("done", len(sums) - len(before), set(before), core.kungfu_size(), flush=True)
"""
SURVIVE = ("-on-failure", "survive")


def test_without_a_host_that_is_cut_off(kungfu_run: Jobs, hosts: Hosts) -> None:
    first, second = (
        launch_on(kungfu_run, hosts, address, PROGRAM, "s" * 64, *SURVIVE) for address in (A, B)
    )
    for launch in (first, second):
        launch.until_printed("ready", times=2)
    ip("-n", hosts.names[A], "link", "set", hosts.nics[A], "down")
    assert first.wait() == 0, first.err
    assert first.out.count("done 10 {4.0} 2") == 2, first.out
    assert re.search(rf"rank 2 .* and rank 3 .* were lost: the runner on {B} is gone", first.err)
    assert second.wait() == 1
    assert "done" not in second.out
    assert f"the job ends: the runner that leads it ({A} port" in second.err
    assert second.err.count("the job ends: ") == 1


def test_without_a_peer_that_gives_no_sign_of_life(kungfu_run: Jobs) -> None:
    launch = kungfu_run("-np", "3", *SURVIVE, *PYTHON, PROGRAM)
    launch.until_printed("ready", times=3)
    stopped = re.search(r"pid 1 (\d+)", launch.out)
    assert stopped is not None
    os.kill(int(stopped[1]), signal.SIGSTOP)
    assert launch.wait() == 0, launch.err
    assert "rank 1 is killed: no sign of life for 5 s" in launch.err
    assert launch.out.count("done 10 {3.0} 2") == 2, launch.out


def test_without_a_host_whose_runner_is_asked_to_go(kungfu_run: Jobs, hosts: Hosts) -> None:
    port = 38500

    def start(address: str) -> Launch:
        options = (*SURVIVE, "-port", str(port))
        return launch_on(kungfu_run, hosts, address, PROGRAM, "s" * 64, *options)

    # A runner that does not know the one that leads yet ends with its host.
    first = start(A)
    kungfu_run.until(lambda: hosts.listens(A, port), lambda: first.err)
    second = start(B)
    for launch in (first, second):
        launch.until_printed("ready", times=2)
    second.process.send_signal(signal.SIGTERM)
    assert second.wait() == 0, second.err
    assert "SIGTERM: the peers of this host leave" in second.err
    assert first.wait() == 0, first.err
    assert len(re.findall(r"done 10 \{.*4.0.*\} 2", first.out)) == 2, first.out
    for rank in (2, 3):
        assert re.search(rf"rank {rank} .* was lost: killed by SIGTERM", first.err), first.err
