"""Peers that are killed while others reduce in their memory."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.fault.elastic import PYTHON, two_hosts

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

PROGRAM = """
import os, signal, sys, threading
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce, sent
core = libraries.core()
libraries.check(core.kungfu_init())
rank = core.kungfu_rank()
def killer():
    before = sent()
    while sent() == before:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for step in range(1000):
        if rank == 3 and step == 2:
            threading.Thread(target=killer, daemon=True).start()
        assert AllReduce("conv1", 4 << 20, shared=True).wait()[0] == 4
        if step == 0:
            print("direct", libraries.statistics()["direct"], flush=True)
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""


@pytest.fixture(params=["one host", "two hosts"])
def launches(request: pytest.FixtureRequest, kungfu_run: Jobs) -> list[Launch]:
    if request.param == "two hosts":
        hierarchy = ("-strategy", "HIERARCHY")
        return two_hosts(kungfu_run, 4, PROGRAM, *hierarchy, KUNGFU_GRACE="60")
    return [kungfu_run("-np", "4", *PYTHON, PROGRAM, KUNGFU_GRACE="60")]


def test_a_peer_is_killed_in_the_middle(launches: list[Launch]) -> None:
    codes = [launch.wait() for launch in launches]
    said = [line for launch in launches for line in launch.out.splitlines()]
    assert 128 + signal.SIGKILL in codes and 0 not in codes, said
    assert sum(line.endswith("direct 1") for line in said) == 4
    errors = [line for line in said if "error: " in line]
    assert len(errors) == 3, said
    for error in errors:
        assert "all_reduce 'conv1'" in error
        assert "rank 3 (127.0.0." in error
