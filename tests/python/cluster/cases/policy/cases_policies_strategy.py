"""Policies that change the ways of all data while a model is trained."""

from __future__ import annotations

from unittest import mock

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive

import kungfu_tf as kf
from kungfu_tf.callbacks import PolicyCallback
from kungfu_tf.hooks import PolicyHook
from kungfu_tf.monitor import measurements

JOBS = [{"np": 4}]

v1 = tf.compat.v1


class Asks(kf.policy.BasePolicy):
    """Asks for what it is told to ask for after a step; notes what is in use after the next."""

    def __init__(self, wishes):
        self.wishes = wishes
        self.used = {}

    def after_step(self, training):
        self.used[training.step] = measurements.strategy()
        if training.step in self.wishes:
            action, argument = self.wishes[training.step]
            getattr(training, action)(argument)


def in_fit(policies):
    model = training.dense_model()
    model.compile(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.01)), "mse")
    recorder = training.Recorder()
    dataset = training.mine(training.epoch())
    model.fit(dataset, verbose=0, callbacks=[PolicyCallback(policies), recorder])
    assert kf.ops.consensus(np.array(recorder.weights))


def in_session(policies):
    x, y = training.samples(training.BATCH)
    with tf.Graph().as_default():
        kf.variables.get_or_create_batch_size(training.BATCH)
        loss = training.v1_loss(tf.constant(x + kf.rank()), tf.constant(y), use_resource=True)
        optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(0.01))
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        size = training.BATCH * kf.size() * training.STEPS_PER_EPOCH
        hook = PolicyHook(policies, size, 1, training.BATCH)
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(train)


WHERE = {"fit": in_fit, "session": in_session}


@each(where=["fit", "session"])
def case_all_do_what_rank_0_wants(where):
    """At the same step; what the others want counts nothing."""
    other = {2: ("set_strategy", "STAR"), 4: ("set_tree", [0, 0, 0, 0])}
    wishes = {3: ("set_strategy", "RING"), 6: ("set_tree", [1, 1, 1, 0])}
    asks = Asks(wishes if kf.rank() == 0 else other)
    try:
        WHERE[where]([asks])
    finally:
        kf.ops.set_strategy("AUTO")
    assert [asks.used[step] for step in (4, 5, 6)] == ["RING"] * 3, asks.used
    assert [asks.used[step] for step in (7, 8, 9)] == ["TREE"] * 3, asks.used
    assert asks.used[3] not in ("RING", "STAR"), asks.used


@each(where=["fit", "session"])
@exhaustive(where=["session"])
def case_the_shortest_ways(where):
    asks = Asks({})
    try:
        WHERE[where]([kf.policy.LatencyTreePolicy(interval=4), asks])
    finally:
        kf.ops.set_strategy("AUTO")
    assert set(asks.used.values()) == {"TREE"}


@each(where=["fit", "session"])
@exhaustive(where=["fit"])
def case_the_strategy_changes_where_most_see_interference(where):
    """They vote, and change at the same step; only what each has measured is told here."""
    slow = {2: (1, 2), 4: (0, 1, 2), 6: (3,), 8: (1, 2, 3)}  # which ranks, after so many steps
    asks = Asks({})
    policy = kf.policy.InterferenceStrategyPolicy(
        ["RING", "BINARY_TREE"], interval=2, threshold=0.7
    )

    def throughputs():
        newest = 0.6 if kf.rank() in slow.get(len(asks.used), ()) else 0.8
        return {measurements.strategy(): measurements.Throughput(1, 1.0, newest, best=1.0)}

    kf.ops.set_strategy("STAR")
    try:
        with mock.patch.object(measurements, "throughputs", throughputs):
            WHERE[where]([asks, policy])
    finally:
        kf.ops.set_strategy("AUTO")
    used = [asks.used[step] for step in range(1, 10)]
    assert used == ["STAR"] * 4 + ["RING"] * 4 + ["BINARY_TREE"], used
