"""Trains through memberships of 1, 3 and 2 peers by one traced function; prints "ok" on each."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

import kungfu_tf as kf

PLAN = [3, 2]
RATE = 0.5
weights = tf.Variable(tf.zeros([4], tf.float64))
steps = tf.Variable(0, dtype=tf.int64)
traces = 0


def samples(step: int) -> np.ndarray:
    """One sample for each rank there can be, the same on every peer."""
    return np.random.default_rng(step).normal(size=(3, 4))


@tf.function
def train(sample: tf.Tensor) -> tf.Tensor:
    global traces
    traces += 1
    with kf.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(weights * sample)
    (gradient,) = tape.gradient(loss, [weights])
    weights.assign_sub(RATE * gradient)
    steps.assign_add(1)
    return kf.ops.cluster_size()


def resize(size: int | None) -> None:
    """And gives newcomers what the others have."""
    if kf.resize(n=size) and not kf.detached():
        kf.initializer.broadcast_variables([weights, steps])


def main() -> None:
    if os.environ["KUNGFU_MEMBERSHIP"] == "joining":
        resize(None)
    while kf.epoch() < len(PLAN) and not kf.detached():
        mine = samples(int(steps))
        expected = weights - RATE * mine[: kf.size()].mean(axis=0)
        assert int(train(mine[kf.rank()])) == kf.size()
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-12)
        resize(PLAN[kf.epoch()])
    if not kf.detached():
        assert kf.ops.consensus(weights)
    assert traces == 1
    print("ok", kf.size(), int(steps), flush=True)


if __name__ == "__main__":
    main()
