"""Jobs whose leading runner is lost, and whose store says which one leads then."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests import etcd_server, ports
from tests.fault.elastic import PYTHON, SECRET
from tests.fault.hosts import A, B, Hosts, ip, launch_on
from tests.fault.test_survivors import PROGRAM, SURVIVE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fault.conftest import Jobs


def test_another_runner_leads_when_the_first_one_is_killed(
    kungfu_run: Jobs, tmp_path: Path
) -> None:
    runner, *others = ports.take(10)
    hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    words = ("-np", "4", "-H", f"{hosts[0]}:1,{hosts[1]}:1,{hosts[2]}:2")
    words += ("-port", str(runner), "-port-range", f"{others[0]}-{others[-1]}", *SURVIVE)
    with etcd_server.running(tmp_path) as etcd:
        first, *rest = (
            kungfu_run(
                *(*words, "-config-server", f"etcd://{etcd.place}/job", "-self", host),
                *(*PYTHON, PROGRAM),
                KUNGFU_SECRET=SECRET,
            )
            for host in hosts
        )
        for launch, peers in zip((first, *rest), (1, 1, 2), strict=True):
            launch.until_printed("ready", times=peers)
        first.process.kill()
        for launch in rest:
            launch.until_said("the runner that leads the job, on 127.0.0.1, is gone")
        kungfu_run.until(
            lambda: any("the job goes on with 3 peers" in launch.err for launch in rest),
            lambda: "".join(launch.err for launch in rest),
        )
        pid = re.search(r"pid 3 (\d+)", rest[1].out)
        assert pid is not None
        os.kill(int(pid[1]), signal.SIGKILL)
        assert [launch.wait() for launch in rest] == [0, 0], [launch.err for launch in rest]
    for launch in rest:
        assert launch.out.count("done 10 {4.0} 2") + launch.out.count("done 10 {3.0, 4.0} 2") == 1
    led = [launch for launch in rest if "this runner leads the job from now on" in launch.err]
    assert len(led) == 1
    assert "rank 3 (127.0.0.3:" in led[0].err


@pytest.mark.exhaustive  # the network takes its time
def test_the_job_goes_on_where_the_lease_is(kungfu_run: Jobs, hosts: Hosts, tmp_path: Path) -> None:
    through = ("ip", "netns", "exec", hosts.names[B])
    with etcd_server.running(tmp_path, address=B, through=through) as etcd:
        words = (*SURVIVE, "-config-server", f"etcd://{etcd.place}/job")
        first, second = (
            launch_on(kungfu_run, hosts, address, PROGRAM, "s" * 64, *words) for address in (A, B)
        )
        for launch in (first, second):
            launch.until_printed("ready", times=2)
        ip("-n", hosts.names[A], "link", "set", hosts.nics[A], "down")
        assert second.wait() == 0, second.err
        assert first.wait() == 1, first.err
    assert second.out.count("done 10 {4.0} 2") == 2, second.out
    assert "done" not in first.out
    assert "the job ends: a host is lost, so that another runner may lead, and" in first.err
    assert first.err.count("the job ends: ") == 1
