"""Another launcher starts processes on two hosts: programs, or one kungfu-run on each."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests import ports
from tests.fault.hosts import A, B, Hosts
from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PROGRAM = """
import os
import kungfu_tf as kf
largest = kf.all_reduce_int_max(10 * kf.rank())
ranks = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
print(kf.rank(), kf.size(), kf.local_rank(), kf.local_size(), largest, *ranks, flush=True)
"""
SECRET = {"KUNGFU_SECRET": "a secret of this test"}


def torchrun(rank: int, size: int, leader: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": leader,
        "MASTER_PORT": "29500",
        **SECRET,
    }


def test_programs_on_two_hosts(hosts: Hosts) -> None:
    """Rank 1 reaches rank 0 by a loopback address, which would be of no use to the other host."""
    by_loopback = {1: {"KUNGFU_LEADER": "127.0.0.1"}}
    processes = [
        subprocess.Popen(
            ["ip", "netns", "exec", hosts.names[host], sys.executable, "-c", PROGRAM],
            env={**os.environ, **torchrun(rank, 4, A), **by_loopback.get(rank, {})},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, host in enumerate([A, A, B, B])
    ]
    try:
        told = [process.communicate(timeout=DEADLINE)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [" ".join(line[:5]) for line in told] == [
        *("0 4 0 2 30", "1 4 1 2 30", "2 4 0 2 30", "3 4 1 2 30")
    ]


def test_one_kungfu_run_on_each_host(kungfu_run: Jobs, hosts: Hosts) -> None:
    launches = [
        kungfu_run(
            *("-np", "3", sys.executable, "-c", PROGRAM),
            namespace=hosts.names[host],
            **torchrun(rank, 2, A),
        )
        for rank, host in enumerate((A, B))
    ]
    assert [launch.wait() for launch in launches] == [0, 0], [launch.err for launch in launches]
    said = [sorted(line.split("] ")[1] for line in launch.out.splitlines()) for launch in launches]
    assert said == [["0 3 0 2 20 0 3 0", "1 3 1 2 20 1 3 1"], ["2 3 0 1 20 2 3 0"]]


def test_several_kungfu_run_on_one_host_are_an_error(kungfu_run: Jobs) -> None:
    leader = f"localhost:{ports.take()[0]}"
    launches = [
        kungfu_run(
            *("-np", "2", sys.executable, "-c", PROGRAM),
            **torchrun(rank, 2, ""),
            KUNGFU_LEADER=leader,
        )
        for rank in range(2)
    ]
    for launch in launches:
        assert launch.wait() == 2
        assert "has started 2 kungfu-run on 1 hosts: start one on each" in launch.err
