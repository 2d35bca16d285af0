"""A job on two hosts: two network namespaces with a cable between them."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

A, B = "10.77.0.1", "10.77.0.2"

PROGRAM = """
import sys
from kungfu_tf import _lib, errors
from tests.fault.peers import AllReduce
core = _lib.core()
try:
    _lib.check(core.kungfu_init())
    values = AllReduce("x", 1 << 20).wait()
except errors.KungfuError as error:
    print(f"error: {type(error).__name__}: {error}", flush=True)
    sys.exit(1)
rank, local = core.kungfu_rank(), core.kungfu_local_rank()
print(f"{rank} {local} {core.kungfu_local_size()} {core.kungfu_host_count()} {values[0]}")
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=30)


class Hosts:
    """Namespaces `a` and `b`, joined by a veth pair."""

    def __init__(self) -> None:
        mark = uuid.uuid4().hex[:6]
        self.names = {A: f"kf-a-{mark}", B: f"kf-b-{mark}"}
        self.nics = {A: f"kfa{mark}", B: f"kfb{mark}"}

    def up(self) -> None:
        for name in self.names.values():
            ip("netns", "add", name)
        ip("link", "add", self.nics[A], "type", "veth", "peer", "name", self.nics[B])
        for address, name in self.names.items():
            nic = self.nics[address]
            ip("link", "set", nic, "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", nic)
            ip("-n", name, "link", "set", nic, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def down(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    hosts = Hosts()
    try:
        hosts.up()
        yield hosts
    finally:
        hosts.down()


def launch_on(
    kungfu_run: "Jobs", hosts: Hosts, address: str, program: str, secret: str
) -> "Launch":
    """The same command on each host, as its user would type it there."""
    return kungfu_run(
        *("-H", f"{A}:2,{B}:2", "-np", "4", "-nic", hosts.nics[address]),
        *(sys.executable, "-c", program),
        namespace=hosts.names[address],
        KUNGFU_SECRET=secret,
        KUNGFU_GRACE="60",
    )


def test_the_result_is_that_of_one_host(kungfu_run: "Jobs", hosts: Hosts) -> None:
    launches = [launch_on(kungfu_run, hosts, address, PROGRAM, "s" * 64) for address in (A, B)]
    assert [launch.wait() for launch in launches] == [0, 0], [one.err for one in launches]
    for host, launch in enumerate(launches):
        said = sorted(line.split("] ")[1] for line in launch.out.splitlines())
        assert said == [f"{2 * host + local} {local} 2 2 4.0" for local in (0, 1)]


def test_a_wrong_secret_is_refused_on_both(kungfu_run: "Jobs", hosts: Hosts) -> None:
    launches = [
        launch_on(kungfu_run, hosts, address, PROGRAM, secret * 64)
        for address, secret in ((A, "s"), (B, "t"))
    ]
    for launch in launches:
        assert launch.wait() == 1, launch.err
        assert launch.out.count("error: ") == 2, launch.out
        assert "error: PermissionDeniedError" in launch.out


def test_the_cable_is_cut(kungfu_run: "Jobs", hosts: Hosts) -> None:
    program = """
import sys
from kungfu_tf import _lib, errors
from tests.fault.peers import AllReduce
core = _lib.core()
_lib.check(core.kungfu_init())
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
