"""A monitored session through 1, 3 and 2 peers; prints "ok" on each.

Rank 0 alone has a hook for which all meet after each step: newcomers learn of that from it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from elastic_server import wait_until

import kungfu_tf as kf
from kungfu_tf import peer

v1 = tf.compat.v1
STEPS = 20


class Wait(v1.train.SessionRunHook):
    """On rank 0 waits until what the schedule has asked for is there."""

    def __init__(self):
        self.sizes = []

    def after_run(self, run_context, run_values):
        self.sizes.append(kf.size())
        wanted = {5: 3, 10: 2}.get(len(self.sizes))  # asked for before these steps
        if kf.rank() == 0 and wanted is not None:
            wait_until(lambda: peer.outdated() or kf.size() == wanted, "the peers do not change")


def main() -> None:
    wait, directory, logs = Wait(), Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    with tf.Graph().as_default():
        data = tf.data.Dataset.range(10**6).shuffle(100, seed=kf.uid()).repeat().batch(4)
        numbers = tf.cast(v1.data.make_one_shot_iterator(data).get_next(), tf.float64)
        weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
        optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.MomentumOptimizer(1e-9, 0.9))
        step = v1.train.get_or_create_global_step()
        train = optimizer.minimize(weight * tf.reduce_mean(numbers), global_step=step)
        last = v1.train.FinalOpsHook([step.read_value(), weight.read_value()])
        monitor = kf.hooks.MonitorHook(log_dir=str(logs))
        hooks = [monitor, kf.hooks.ElasticHook("1:4,3:5,2:1", STEPS), last]
        hooks += [wait] if kf.is_root() else []
        with v1.train.MonitoredTrainingSession(
            hooks=hooks, checkpoint_dir=str(directory), save_checkpoint_steps=5
        ) as session:
            while not session.should_stop():
                session.run(train)
    rank = 2 if kf.detached() else kf.rank()  # that it has begun with
    assert [path.name for path in logs.iterdir()] == [f"rank{rank}-{kf.uid():016x}"]
    files = bool(list(directory.glob("model.ckpt*")))
    if kf.detached():
        assert not files
        print("ok detached", flush=True)
        return
    assert files == (kf.rank() == 0)
    assert kf.ops.consensus(np.array(last.final_ops_values, np.float64))
    assert int(last.final_ops_values[0]) == STEPS, last.final_ops_values
    if kf.rank() == 0:
        # Steps 5 and 10 ask for others, who may be there at once.
        assert wait.sizes[:4] == [1] * 4 and wait.sizes[10:] == [2] * 10, wait.sizes
        assert set(wait.sizes[5:9]) == {3}, wait.sizes
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
