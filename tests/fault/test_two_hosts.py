"""A job on two hosts: two network namespaces with a cable between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fault import elastic
from tests.fault.hosts import A, B, Hosts, ip, launch_on

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PROGRAM = """
import sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
core = libraries.core()
try:
    libraries.check(core.kungfu_init())
    values = AllReduce("x", 1 << 20).wait()
except errors.KungfuError as error:
    print(f"error: {type(error).__name__}: {error}", flush=True)
    sys.exit(1)
rank, local = core.kungfu_rank(), core.kungfu_local_rank()
print(f"{rank} {local} {core.kungfu_local_size()} {core.kungfu_host_count()} {values[0]}")
"""


def test_the_result_is_that_of_one_host(kungfu_run: Jobs, hosts: Hosts) -> None:
    launches = [launch_on(kungfu_run, hosts, address, PROGRAM, "s" * 64) for address in (A, B)]
    assert [launch.wait() for launch in launches] == [0, 0], [one.err for one in launches]
    for host, launch in enumerate(launches):
        said = sorted(line.split("] ")[1] for line in launch.out.splitlines())
        assert said == [f"{2 * host + local} {local} 2 2 4.0" for local in (0, 1)]


def test_a_wrong_secret_is_refused_on_both(kungfu_run: Jobs, hosts: Hosts) -> None:
    launches = [
        launch_on(kungfu_run, hosts, address, PROGRAM, secret * 64)
        for address, secret in ((A, "s"), (B, "t"))
    ]
    for launch in launches:
        assert launch.wait() == 1, launch.err
        assert launch.out.count("error: ") == 2, launch.out
        assert "error: PermissionDeniedError" in launch.out


def test_the_cable_is_cut(kungfu_run: Jobs, hosts: Hosts) -> None:
    program = """
import sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
core = libraries.core()
libraries.check(core.kungfu_init())
AllReduce("x", 10).wait()
print("ready", flush=True)
try:
    while True:
        AllReduce("x", 1 << 20).wait()
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""
    launches = [launch_on(kungfu_run, hosts, address, program, "s" * 64) for address in (A, B)]
    for launch in launches:
        launch.until_printed("ready", times=2)
    ip("-n", hosts.names[A], "link", "set", hosts.nics[A], "down")
    for launch, other in zip(launches, (B, A), strict=True):
        assert launch.wait() == 1, launch.err
        for line in [line for line in launch.out.splitlines() if "error: " in line]:
            assert "all_reduce 'x'" in line
            assert f"({other}:" in line
        assert launch.out.count("error: ") == 2


def test_a_job_grows_and_shrinks(kungfu_run: Jobs, hosts: Hosts) -> None:
    program = "PLAN = [4, 2, 3, 1]" + elastic.PROGRAM
    first, second = (
        launch_on(kungfu_run, hosts, address, program, "s" * 64, "-w", np=1) for address in (A, B)
    )
    assert [first.wait(), second.wait()] == [0, 0], first.err + second.err
    assert f"[{A}:0] membership 1 rank 0 of 4" in first.out
    assert f"[{A}:0] membership 4 rank 0 of 1" in first.out
    assert second.out.count("membership 1 rank ") == 2
    assert second.out.count(" of 4\n") == 2
    assert second.out.count("detached: True") >= 2
