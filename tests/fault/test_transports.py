"""Peers whose KUNGFU_TRANSPORT differ: of one host they all say so, at once; of two they work."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import ports
from tests.by_hand import what_they_say

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PROGRAM = """
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
try:
    libraries.check(libraries.core().kungfu_init())
    print("sum:", AllReduce("together", 10).wait()[0])
except errors.KungfuError as error:
    print(f"{type(error).__name__}: {error}")
"""


def told(settings: tuple[str, str], directory: Path) -> list[dict[str, str]]:
    """What each peer is told: a transport, and with a slash where the host's sockets are."""
    return [
        {"KUNGFU_TRANSPORT": setting.rstrip("/")}
        | ({"KUNGFU_SOCKET_DIR": str(directory)} if setting.endswith("/") else {})
        for setting in settings
    ]


@pytest.mark.parametrize(
    ("settings", "meanings"),
    [
        (("tcp/", "shm/"), ("tcp", "shm")),
        (("unix/", "tcp/"), ("unix", "tcp")),
        (("shm/", "unix/"), ("shm", "unix")),
        (("auto/", "tcp/"), ("auto (shm)", "tcp")),
        # One of the two cannot know where the other one listens.
        (("tcp", "shm/"), ("tcp", "shm")),
        (("unix/", "auto"), ("unix", "auto (tcp, for KUNGFU_SOCKET_DIR is not set)")),
        (("auto", "auto/"), ("auto (tcp, for KUNGFU_SOCKET_DIR is not set)", "auto (shm)")),
    ],
)
def test_on_one_host_both_say_what_differs(
    settings: tuple[str, str], meanings: tuple[str, str], tmp_path: Path
) -> None:
    peers = [f"127.0.0.1:{port}" for port in ports.take(2)]
    said = what_they_say(PROGRAM, peers, told(settings, tmp_path))
    for rank, out in enumerate(said):
        assert out.startswith("InvalidArgumentError: all_reduce 'together': "), said
        assert out.count("\n") == 1, said
        other = 1 - rank
        assert f"rank {other} ({peers[other]}): KUNGFU_TRANSPORT is " in out, said
        for peer, meaning in zip(peers, meanings, strict=True):
            assert f"{meaning} at {peer}" in out, said


@pytest.mark.parametrize(
    ("hosts", "settings"),
    [
        (("127.0.0.1", "127.0.0.1"), ("auto/", "shm/")),
        (("127.0.0.1", "127.0.0.1"), ("tcp", "auto")),
        (("127.0.0.1", "127.0.0.2"), ("auto/", "tcp")),
        (("127.0.0.1", "127.0.0.2"), ("auto", "auto/")),
    ],
)
def test_what_leads_to_each_other_need_not_be_the_same(
    hosts: tuple[str, str], settings: tuple[str, str], tmp_path: Path
) -> None:
    peers = [f"{host}:{port}" for host, port in zip(hosts, ports.take(2), strict=True)]
    assert what_they_say(PROGRAM, peers, told(settings, tmp_path)) == ["sum: 2.0\n", "sum: 2.0\n"]


def test_a_job_of_which_one_peer_was_told_something_else(kungfu_run: "Jobs") -> None:
    program = """
import os, sys
from kungfu_tf.native import libraries
if os.environ["KUNGFU_SELF"] == os.environ["KUNGFU_PEERS"].split(",")[1]:
    os.environ["KUNGFU_TRANSPORT"] = "tcp"
""" + PROGRAM.replace("print(f", "sys.exit(f")
    launch = kungfu_run("-np", "3", sys.executable, "-c", program, KUNGFU_GRACE="60")
    assert launch.wait() == 1, launch.out + launch.err
    for rank in range(3):
        start = f"[{rank}] InvalidArgumentError: all_reduce 'together': "
        said = [line for line in launch.err.splitlines() if line.startswith(start)]
        assert len(said) == 1, launch.out + launch.err
        assert rank == 1 or "rank 1 (127.0.0.1:" in said[0]
        assert "KUNGFU_TRANSPORT is " in said[0]
        assert "tcp at 127.0.0.1:" in said[0]
        assert "auto (shm) at 127.0.0.1:" in said[0]
