"""Jobs whose connections break though all peers live: they are made anew, and no sum is wrong."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.fault.elastic import PYTHON
from tests.fault.hosts import A, B, Hosts, launch_on

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# A peer adds step * (rank + 1) in each step, so a message that is lost, or comes twice, makes a sum
# another one. Rank 0 says when it is the last step: after 20, if CUTS are made, or else when the
# test has healed what it has broken. The longest step, in seconds, is for whoever reads it.
PROGRAM = """
import os, time
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce, cut_connections
core = libraries.core()
libraries.check(core.kungfu_init())
rank, size = core.kungfu_rank(), core.kungfu_size()
total = AllReduce("x", 1 << 18)
total.wait()
step, longest, is_over = 0, 0.0, False
while not is_over:
    step += 1
    if CUTS.get(step) == rank:
        print("cut", step, cut_connections(), flush=True)
    is_last = rank == 0 and (step == 20 if CUTS else os.path.exists("healed"))
    total.values[0], total.values[1] = step * (rank + 1), is_last
    began = time.monotonic()
    values = total.start().wait()
    longest = max(longest, time.monotonic() - began)
    assert values[0] == step * size * (size + 1) / 2, (step, values)
    is_over = values[1] > 0
    if step == 5:
        print("ready", flush=True)
print(f"done {core.kungfu_size()} {core.kungfu_rank() == rank} {longest:.2f} s", flush=True)
"""
SURVIVE = ("-on-failure", "survive")


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_connection_that_is_cut_is_made_anew(kungfu_run: Jobs, transport: str) -> None:
    program = "CUTS = {5: 0, 10: 1, 15: 2}" + PROGRAM
    launch = kungfu_run("-np", "3", *SURVIVE, *PYTHON, program, KUNGFU_TRANSPORT=transport)
    assert launch.wait() == 0, launch.err
    assert launch.out.count("done 3 True") == 3, launch.out
    cuts = re.findall(r"cut (\d+) ([1-9])", launch.out)
    assert sorted(int(step) for step, _ in cuts) == [5, 10, 15], launch.out
    assert launch.err.count("connections between peers broke") == 3, launch.err
    assert launch.err.count("3 peers went on") == 3, launch.err
    assert "lost" not in launch.err


# After 5 seconds the host is lost.
@pytest.mark.parametrize("seconds", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_a_cable_is_cut_and_healed(kungfu_run: Jobs, hosts: Hosts, seconds: int) -> None:
    launches = [
        launch_on(kungfu_run, hosts, address, "CUTS = {}" + PROGRAM, "s" * 64, *SURVIVE)
        for address in (A, B)
    ]
    for launch in launches:
        launch.until_printed("ready", times=2)
    with hosts.cut(A):
        time.sleep(seconds)
    (launches[0].folder / "healed").touch()
    for launch in launches:
        assert launch.wait() == 0, launch.err
        assert launch.out.count("done 4 True") == 2, launch.out
        assert "was lost" not in launch.err
