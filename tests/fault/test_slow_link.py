"""A cable becomes slow while a job trains: the peers see it, agree, and change the strategy.

That is done by a policy, as a user gives it to `fit`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fault.hosts import A, B, Hosts, launch_on

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# Trains until the policy has changed the strategy where the cable is known to be slow: once one was
# fast for three looks all wait for that, between two steps, so that none takes long for another
# reason.
PROGRAM = """
import os
import numpy as np
import tensorflow as tf
import kungfu_tf as kf
from kungfu_tf.monitor import measurements
from tests.waiting import until
keras = tf.keras
INTERVAL = 5
class Watches(kf.policy.BasePolicy):
    used, changed, slow = "RING", 0, float("inf")
    def before_step(self, training):
        if self.slow > training.step == self.changed + 3 * INTERVAL:
            print("was fast", flush=True)
            until(lambda: os.path.exists(SLOW), lambda: "the cable is slow")
            kf.barrier()
            self.slow = training.step
    def after_step(self, training):
        before, self.used = self.used, measurements.strategy()
        if self.used != before:
            self.changed = training.step - 1
        if self.changed > self.slow:
            training.stop()
        else:
            assert training.step < self.slow + 5 * INTERVAL, "nobody sees that the cable is slow"
kf.ops.set_strategy("RING")
x = np.random.default_rng(kf.rank()).normal(size=(80, 256))
model = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(256)])
optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.01), monitor=True)
model.compile(optimizer, "mse")
strategies = ["RING", "BINARY_TREE"]
policy = kf.policy.InterferenceStrategyPolicy(strategies, interval=INTERVAL, threshold=0.2)
watches = Watches()
policies = kf.callbacks.PolicyCallback([policy, watches])
model.fit(x, x, batch_size=4, epochs=10**6, verbose=0, callbacks=[policies])
assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
assert measurements.throughputs()[watches.used].bytes >= 4 * 256 * 256
print("switched to", watches.used, "after step", watches.changed, flush=True)
"""


def slow_down(hosts: Hosts, address: str) -> None:
    """So much that a step takes a second or two: longer than any on a busy machine."""
    shape = ["root", "tbf", "rate", "2mbit", "burst", "32kb", "latency", "400ms"]
    command = ["tc", "-n", hosts.names[address], "qdisc", "add", "dev", hosts.nics[address], *shape]
    subprocess.run(command, check=True, timeout=30)


@pytest.mark.timeout(600)  # four TensorFlows start
def test_all_change_the_strategy_after_the_same_step(
    kungfu_run: Jobs, hosts: Hosts, tmp_path: Path
) -> None:
    if shutil.which("tc") is None:
        pytest.skip("a cable is made slow by tc, of iproute2")
    slow = tmp_path / "slow"
    program = f"SLOW = {str(slow)!r}" + PROGRAM
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
