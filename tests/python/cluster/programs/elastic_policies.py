"""Policies in a monitored session through 1 and 2 peers; prints "ok" on each."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from elastic_server import wait_for_change

import kungfu_tf as kf

v1 = tf.compat.v1
BATCH, EPOCH_SIZE, EPOCHS = 4, 24, 4


class Notes(kf.policy.BasePolicy):
    """Notes all calls, and what they see; the third step asks for two peers and other batches."""

    def __init__(self):
        self.calls = []

    def __getattribute__(self, name):
        if not name.startswith(("before_", "after_")):
            return super().__getattribute__(name)

        def note(training):
            seen = training.epoch, training.step, training.trained_samples, training.batch_size
            self.calls.append((name, *seen))
            if (name, training.step) == ("after_step", 3):
                training.resize(2)
                training.set_batch_size(2 * BATCH)

        return note


class Fails(kf.policy.BasePolicy):
    """In its first step."""

    def __init__(self):
        self.steps = []

    def after_step(self, training):
        self.steps.append(training.step)
        raise OSError("no thermometer")


class WaitsForOthers(v1.train.SessionRunHook):
    def __init__(self):
        self.steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if kf.size() == 1 and self.steps == 3:
            wait_for_change()


def main() -> None:
    notes, fails = Notes(), Fails()
    with tf.Graph().as_default():
        kf.variables.get_or_create_batch_size(BATCH)
        weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
        optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(weight * weight, v1.train.get_or_create_global_step())
        policies = [notes, fails]
        policies = kf.hooks.PolicyHook(policies, EPOCH_SIZE, EPOCHS, BATCH, on_error="continue")
        hooks = [policies, kf.hooks.ElasticHook(None, 10**6), WaitsForOthers()]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
    together = [call for call in notes.calls if call[2] >= 3 and call[:3] != ("after_step", 0, 3)]
    samples = [28, 44, 60, 76, 92, 108]
    seen = [call for call in together if call[0] == "after_step"]
    assert [(step, total) for _, _, step, total, _ in seen] == list(enumerate(samples, start=4))
    assert {size for *_, size in together} == {2 * BATCH}, together
    assert [call[1] for call in together if call[0] == "after_epoch"] == [0, 1, 2, 3], together
    assert kf.ops.consensus(np.frombuffer(repr(together).encode(), np.uint8))
    if kf.rank() == 1:
        assert (notes.calls, fails.steps) == (together, []), notes.calls
    else:
        assert fails.steps == [1]
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
