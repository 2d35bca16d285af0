"""What only some peers execute ends by its deadline, with an error that says who is missing."""

from __future__ import annotations

import tensorflow as tf
from support import raised_by

import kungfu_tf as kf

JOBS = [{"np": 3, "env": {"KUNGFU_COLLECTIVE_TIMEOUT": "8"}}]
NEEDS_KERAS = False

TooLate = tf.errors.DeadlineExceededError


def case_in_a_cond():
    @tf.function
    def run(flag):
        return tf.cond(flag, lambda: kf.ops.all_reduce(1.0, name="in a cond"), lambda: 0.0)

    if kf.rank() == 1:
        assert run(tf.constant(False)) == 0
    else:
        text = raised_by(TooLate, run, tf.constant(True))
        assert "in a cond" in text
        assert "rank 1" in text


def case_the_next_operations():
    """Of other names, and of the same: its number was given up by those who had it."""
    assert kf.ops.all_reduce(1.0, name="elsewhere") == kf.size()
    if kf.rank() == 1:
        raised_by(TooLate, lambda: kf.ops.all_reduce(1.0, name="in a cond"))
    assert kf.ops.all_reduce(1.0, name="in a cond") == kf.size()


def case_in_eager_code():
    if kf.rank() > 0:
        text = raised_by(TooLate, lambda: kf.ops.all_gather(1.0, name="eager"))
        assert "rank 0" in text


def case_barrier_of_the_process():
    if kf.rank() == 2:
        text = raised_by(kf.errors.DeadlineExceededError, kf.barrier)
        assert "rank 0" in text
        assert "rank 1" in text


def case_a_fit_of_rank_0_alone():
    """The last of this file: the others' next `fit` would be one behind."""
    if kf.rank() == 0:
        model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
        text = raised_by(TooLate, lambda: model.fit(tf.zeros([2, 1]), tf.zeros([2, 1]), verbose=0))
        assert "not all peers call fit" in text
        assert "rank 1" in text
