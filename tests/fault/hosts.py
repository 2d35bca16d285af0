"""Two hosts on this one: network namespaces with a cable between them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

A, B = "10.77.0.1", "10.77.0.2"

# Of Linux: unshare(2), netdevice(7).
_NEWNET = 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_REQUEST = struct.Struct("16sh22x")


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

    @contextlib.contextmanager
    def cut(self, address: str) -> Iterator[None]:
        """The cable of that host is out within it, and hardly longer: no process is started."""
        with _socket_in(self.names[address]) as inside:
            _set_up(inside, self.nics[address], is_up=False)
            try:
                yield
            finally:
                _set_up(inside, self.nics[address], is_up=True)

    def down(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30)


def _socket_in(namespace: str) -> socket.socket:
    """One of that namespace. The thread that makes it is of no other use."""
    made: list[socket.socket] = []

    def make() -> None:
        with open(f"/run/netns/{namespace}") as name:
            if ctypes.CDLL(None, use_errno=True).setns(name.fileno(), _NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns to {namespace}")
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def _set_up(inside: socket.socket, nic: str, *, is_up: bool) -> None:
    asked = fcntl.ioctl(inside, _GET_FLAGS, _REQUEST.pack(nic.encode(), 0))
    _, flags = _REQUEST.unpack(asked)
    flags = flags | _UP if is_up else flags & ~_UP
    fcntl.ioctl(inside, _SET_FLAGS, _REQUEST.pack(nic.encode(), flags))
    _, now = _REQUEST.unpack(fcntl.ioctl(inside, _GET_FLAGS, asked))
    assert bool(now & _UP) == is_up, nic


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
