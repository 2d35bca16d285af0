"""Policies in sessions of TF1."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import logged, raised_by

import kungfu_tf as kf
from kungfu_tf.hooks import PolicyHook
from kungfu_tf.policy import BasePolicy
from kungfu_tf.variables import GraphKeys

JOBS = [{"np": 2}]
NEEDS_KERAS = False

v1 = tf.compat.v1


class Tells(BasePolicy):
    """Notes what it sees after each step, and the epochs; fails if it is told to."""

    def __init__(self, fails=False):
        self.fails = fails
        self.seen, self.epochs = [], []

    def before_epoch(self, training):
        self.epochs.append(training.epoch)

    def after_epoch(self, training):
        self.epochs.append(-training.epoch)

    def after_step(self, training):
        self.seen.append((training.trained_samples, training.batch_size, training.learning_rate))
        if self.fails and len(self.seen) == 2:
            raise OSError("no thermometer")


def trained(hook, make=lambda optimizer: kf.optimizers.SynchronousSGDOptimizer(optimizer)):
    """Trains a network until the hook stops it; each batch is what the variable says.

    Returns:
        The sizes of this peer's batches, the variables' values at the end, the weights.
    """
    data_x, data_y = (part[kf.rank() :: kf.size()] for part in training.samples(2000))
    with tf.Graph().as_default():
        size = kf.variables.get_or_create_batch_size(4)
        rate = kf.variables.create_global_variable(
            GraphKeys.LEARNING_RATE, value=0.01, dtype=tf.float64
        )
        x = v1.placeholder(tf.float64, [None, training.FEATURES])
        y = v1.placeholder(tf.float64, [None, 1])
        loss = training.v1_loss(x, y, use_resource=True)
        optimizer = make(v1.train.GradientDescentOptimizer(tf.cast(rate, tf.float32)))
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        begin, sizes, values = 0, [], {}
        keys = [GraphKeys.BATCH_SIZE, GraphKeys.TRAINED_SAMPLES]
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            while not session.should_stop():
                rows = kf.variables.eval_batch_size(session=session)
                feed = {x: data_x[begin : begin + rows], y: data_y[begin : begin + rows]}
                session.run(train, feed)
                begin, sizes = begin + rows, [*sizes, rows]
                raw = session.run_step_fn(lambda step_context: step_context.session)
                values = {k: kf.variables.eval_global_variable(k, session=raw) for k in keys}
                weights = raw.run(v1.trainable_variables())
        assert size is kf.variables.get_batch_size()
    return sizes, values, weights


def case_batch_size_and_learning_rate():
    tells = Tells()
    policy = kf.policy.ScheduledBatchSizePolicy("4:3,8:2,16:1", scale_learning_rate="linear")
    sizes, values, weights = trained(
        PolicyHook([policy, tells], epoch_size=60, epoch_num=2, init_batch_size=4)
    )
    assert sizes == [4, 4, 4, 8, 8, 16, 16]
    assert tells.epochs == [0, 0, 1, -1]
    assert [seen[0] for seen in tells.seen] == np.cumsum(sizes).dot(2).tolist()
    assert values[GraphKeys.TRAINED_SAMPLES] == 2 * sum(sizes)
    for _, size, rate in tells.seen:
        np.testing.assert_allclose(rate, 0.01 * size / 4)
    assert kf.ops.consensus(np.int64(training.digest(weights)))


def case_noise_scale():
    seen = []

    class Reads(BasePolicy):
        def after_epoch(self, training):
            seen.append(training.noise_scale)

    def make(optimizer):
        return kf.optimizers.MonitorGradientNoiseScaleOptimizer(optimizer, 4)

    trained(PolicyHook([Reads()], epoch_size=40, epoch_num=1, init_batch_size=4), make)
    assert len(seen) == 1 and seen[0] is not None and seen[0] >= 0
    assert kf.ops.consensus(np.float64(seen[0]))


def case_policies_that_differ_are_named_before_they_are_called():
    tells = Tells()
    hook = PolicyHook([tells, BasePolicy()] if kf.is_root() else [BasePolicy()], 40, 1, 4)
    text = raised_by(ValueError, trained, hook)
    names = "['Tells', 'BasePolicy']" if kf.is_root() else "['BasePolicy']"
    assert f"here, on rank {kf.rank()}, they are {names}" in text, text
    assert f"others on rank {1 - kf.rank()}" in text, text
    assert tells.epochs == []


@each(on_error=["stop", "continue"])
def case_one_that_raises(on_error):
    hook = PolicyHook([Tells(kf.rank() == 1)], 40, 1, 4, on_error=on_error)
    if on_error == "continue":
        with logged("kungfu_tf.policy") as lines:
            sizes, _, _ = trained(hook)
        assert sizes == [4] * 5
        assert len(lines) == kf.rank(), lines
        return
    error = kf.errors.PolicyError if kf.rank() == 1 else tf.errors.OpError
    text = raised_by(error, trained, hook)
    assert "Tells.after_step: OSError: no thermometer" in text, text
