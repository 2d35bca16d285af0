"""A monitored session whose peers do not meet in each step, through 1, 3 and 2; prints "ok".

The first peer waits in a step of its own until the others are at their end, where they wait for it.
Then it asks for fewer: who stays goes on at its step. Before the first step of others each has the
mean of the models that there were.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from elastic_server import wait_for_change, wait_until

import kungfu_tf as kf

v1 = tf.compat.v1
STEPS, FIRST = 20, 4
BEFORE = {3: 1, 2: 3}  # how many peers there were before
FOLDER = Path(sys.argv[2]).parent


class Models:
    """What each peer had before others took part."""

    def __init__(self):
        self.size, self.changes, self.made = 1, 0, []

    def before_step(self, weight):
        if kf.size() == self.size:
            return
        self.size = kf.size()
        self.changes += 1
        before = BEFORE[self.size]
        models = [float(noted(before, rank).read_text()) for rank in range(before)]
        assert len(models) == 1 or np.ptp(models) > 1e-9
        np.testing.assert_allclose(weight, np.mean(models), rtol=0, atol=1e-12)

    def after_step(self, step, weight):
        size, rank = kf.size(), kf.rank()
        self.made.append((size, int(step)))
        if (size, step) == (1, FIRST):
            note(weight)
            kf.propose_new_size(3)
            wait_for_change()
        elif size == 3 and rank > 0 and step == STEPS:
            note(weight)
        elif size == 3 and rank == 0:
            others = [noted(3, 1), noted(3, 2)]
            wait_until(lambda: all(p.exists() for p in others), "the others wait for this peer")
            note(weight)
            kf.propose_new_size(2)
            wait_for_change()


def noted(size, rank):
    return FOLDER / f"model-{size}-{rank}"


def note(weight):
    new = FOLDER / f"new-{kf.rank()}"
    new.write_text(repr(float(weight)))
    new.rename(noted(kf.size(), kf.rank()))


def trained(models):
    """An operation that trains by a gradient of each peer's own, and the model."""
    step = v1.train.get_or_create_global_step()
    weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
    begun = tf.numpy_function(models.before_step, [weight.read_value()], [])
    with tf.control_dependencies([begun]):
        gradient = tf.constant(kf.uid() / 2**63, tf.float64)
        optimizer = kf.optimizers.PairAveragingOptimizer(v1.train.GradientDescentOptimizer(1.0))
        train = optimizer.minimize(weight * gradient, step)
    with tf.control_dependencies([train]):
        values = [step.read_value(), weight.read_value()]
    return tf.numpy_function(models.after_step, values, []), weight


def refuses_policies():
    """Which meet in each step."""
    with tf.Graph().as_default():
        trained(Models())
        hooks = [kf.hooks.PolicyHook([], 1, 1, 1), kf.hooks.ElasticHook(None, STEPS)]
        try:
            v1.train.MonitoredTrainingSession(hooks=hooks)
        except kf.errors.FailedPreconditionError as error:
            assert "and the peers of PairAveraging go over" in str(error), error
        else:
            raise AssertionError("it was taken")


class Last(v1.train.SessionRunHook):
    """What the session has ended with."""

    def __init__(self, value):
        self.value, self.last = value, None

    def end(self, session):
        self.last = session.run(self.value)


def main() -> None:
    refuses_policies()
    models = Models()
    with tf.Graph().as_default():
        train, weight = trained(models)
        last = Last(weight.read_value())
        hooks = [kf.hooks.ElasticHook(None, STEPS), last]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
    if kf.detached():
        print("ok detached", flush=True)
        return
    assert kf.ops.consensus(np.array(last.last)), last.last
    newest = [step for size, step in models.made if size == 2]
    assert newest == list(range(FIRST + 2, STEPS + 1)), models.made
    print("ok", kf.rank(), models.changes, flush=True)


if __name__ == "__main__":
    main()
