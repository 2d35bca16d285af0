"""An elastic job of Ray from which a node is taken away: its peers leave in order."""

from __future__ import annotations

import subprocess
import sys

import pytest
from elastic_training import check, training
from sessions import ray_nodes

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive


def test_the_peer_of_a_drained_node_leaves(capfd: pytest.CaptureFixture[str]) -> None:
    with ray_nodes() as (address, node):
        train = training()
        python = sys.executable
        why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
        where = ["--address", address, "--node-id", node, "--deadline-remaining-seconds", "600"]
        drain = [python, "-m", "ray.scripts.scripts", "drain-node", *where, *why]

        def fn():
            def after_step(model, sizes):
                if sizes == [2, 1]:
                    model.stop_training = True
                elif kf.rank() == 0 and int(model.optimizer.iterations) == 5:
                    subprocess.run(drain, check=True)

            return train(after_step)

        told = kf.ray.run(fn, 2, min_np=1)
    check(told, 1)
    assert [sizes for _, sizes, *_ in told] == [[2, 1]]
    printed = capfd.readouterr().err
    assert "leaves: SIGTERM; the job goes on with 1 peer" in printed
    assert "was lost" not in printed
