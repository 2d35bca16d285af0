"""Two hosts on this one: network namespaces with a cable between them."""

from __future__ import annotations

import contextlib
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

    def listens(self, address: str, port: int) -> bool:
        """Whether a process of that host listens there."""
        command = ["ip", "netns", "exec", self.names[address], "ss", "-ltnH", f"sport = :{port}"]
        return bool(subprocess.run(command, check=True, timeout=30, stdout=subprocess.PIPE).stdout)

    def is_cut(self, address: str) -> bool:
        """Whether the cable of that host is out."""
        show = ["ip", "-n", self.names[address], "link", "show", self.nics[address]]
        done = subprocess.run(show, check=True, timeout=30, stdout=subprocess.PIPE, text=True)
        return "state DOWN" in done.stdout

    def down(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30)


@contextlib.contextmanager
def two_hosts() -> Iterator[Hosts]:
    """They are up within it. Where they cannot be, the test is skipped."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    made = Hosts()
    try:
        made.up()
        yield made
    finally:
        made.down()


def launch_on(
    kungfu_run: Jobs, hosts: Hosts, address: str, program: str, secret: str, *more: str, np: int = 4
) -> Launch:
    """The same command on each host, as its user would type it there."""
    return kungfu_run(
        *("-H", f"{A}:2,{B}:2", "-np", str(np), "-nic", hosts.nics[address]),
        *(*more, sys.executable, "-c", program),
        namespace=hosts.names[address],
        KUNGFU_SECRET=secret,
        KUNGFU_GRACE="60",
    )
