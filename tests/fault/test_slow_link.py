"""A cable becomes slow while a job trains: the peers see it, agree, and change the strategy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fault.hosts import A, B, Hosts, launch_on

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# Looks after every 20 exchanges whether something has become slower; counts it only where the cable
# is known to be slow.
PROGRAM = """
import os
import numpy as np
import tensorflow as tf
import kungfu_tf as kf

@tf.function
def exchange():
    return kf.ops.monitored_all_reduce(tf.ones([1 << 14]), name="gradients")

def looks():
    for _ in range(20):
        np.testing.assert_array_equal(exchange(), np.full(1 << 14, 4.0))
    kf.calc_stats()
    return kf.check_interference(threshold=0.2)

kf.ops.set_strategy("RING")
number = 0
while not looks() or not slow:
    slow = bool(kf.ops.all_reduce(tf.constant(int(os.path.exists(SLOW))), op="max", name="slow"))
    number += 1
    if number == 3:
        print("was fast", flush=True)
kf.ops.set_strategy("BINARY_TREE")
np.testing.assert_array_equal(exchange(), np.full(1 << 14, 4.0))
print(f"switched after look {number}")
"""


def slow_down(hosts: Hosts, address: str) -> None:
    shape = ["root", "tbf", "rate", "16mbit", "burst", "32kb", "latency", "400ms"]
    command = ["tc", "-n", hosts.names[address], "qdisc", "add", "dev", hosts.nics[address], *shape]
    subprocess.run(command, check=True, timeout=30)


@pytest.mark.timeout(600)  # four TensorFlows start
def test_all_change_the_strategy_after_the_same_step(
    kungfu_run: Jobs, hosts: Hosts, tmp_path: Path
) -> None:
    if shutil.which("tc") is None:
        pytest.skip("a cable is made slow by tc, of iproute2")
    slow = tmp_path / "slow"
    program = f"SLOW, slow = {str(slow)!r}, False\n" + PROGRAM
    launches = [launch_on(kungfu_run, hosts, address, program, "s" * 64) for address in (A, B)]
    for launch in launches:
        launch.until_printed("was fast", times=2)
    for address in (A, B):
        slow_down(hosts, address)
    slow.touch()
    assert [launch.wait() for launch in launches] == [0, 0], [one.err for one in launches]
    said = [line for launch in launches for line in launch.out.splitlines() if "switched" in line]
    assert len(said) == 4
    assert len({line.split("] ")[1] for line in said}) == 1
