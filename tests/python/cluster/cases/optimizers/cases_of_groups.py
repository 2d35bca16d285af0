"""Optimizers with a group: each method by its definition, among the members."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each

import kungfu_tf as kf

JOBS = [{"np": 4}]
NEEDS_KERAS = True

GROUPS = {ranks: kf.Group(ranks) for ranks in [(0, 2), (1, 3), (1, 2, 3)]}
RATE, STEPS = 0.125, 5  # a rate that float32 has exactly


def targets(ranks):
    """What the loss of each member, |w − target|² / 2, draws its weights to."""
    return np.stack([np.random.default_rng(rank).normal(size=6) for rank in ranks])


def adasum(a, b):
    return (1 - a @ b / (2 * a @ a)) * a + (1 - a @ b / (2 * b @ b)) * b


def averaging(w, gradients):
    return 0.5 * w + 0.5 * w.mean(axis=0) - RATE * gradients


def synchronous(w, gradients):
    return w - RATE * gradients.mean(axis=0)


def adding_up(w, gradients):
    return w + adasum(*(-RATE * gradients))


def adaptive(w, gradients, step):
    after = averaging(w, gradients) if step < 3 else synchronous(w, gradients)
    return np.broadcast_to(after[0], after.shape) if step == 2 else after


METHODS = {
    "sma": (kf.optimizers.SynchronousAveragingOptimizer, {"alpha": 0.5}, averaging),
    "adasum": (kf.optimizers.AdasumOptimizer, {}, adding_up),
    "adaptive": (
        *(kf.optimizers.AdaptiveSGDOptimizer, {"change_step": 3, "alpha": 0.5}),
        adaptive,
    ),
    "variance": (kf.optimizers.MonitorGradientVarianceOptimizer, {}, synchronous),
    "noise": (
        *(kf.optimizers.MonitorGradientNoiseScaleOptimizer, {"device_batch_size": 4}),
        synchronous,
    ),
}


@each(method=["sma", "adasum", "adaptive", "variance", "noise"], mode=["eager", "function"])
def case_two_groups_at_once(method, mode):
    ranks = (0, 2) if kf.rank() in (0, 2) else (1, 3)
    check(method, mode, ranks)


@each(method=["sma", "variance"])
def case_a_group_beside_a_peer_that_does_nothing(method):
    if GROUPS[1, 2, 3].included:
        check(method, "function", (1, 2, 3))


def check(method, mode, ranks):
    group = GROUPS[ranks]
    make, arguments, definition = METHODS[method]
    optimizer = make(tf.keras.optimizers.SGD(RATE), **arguments, group=group)
    variable = tf.Variable(np.zeros(6))
    target = targets(ranks)

    def step():
        gradient = variable - target[group.rank()]
        optimizer.apply_gradients([(gradient, variable)])

    run = tf.function(step) if mode == "function" else step
    w = np.zeros((len(ranks), 6))
    for number in range(STEPS):
        run()
        numbers = (number,) if method == "adaptive" else ()
        gradients = w - target
        w = definition(w, gradients, *numbers)
        np.testing.assert_allclose(variable.numpy(), w[group.rank()], rtol=1e-12, atol=1e-14)
    if method == "variance":
        measured = optimizer.kungfu_algorithm.metrics["gradient_variance"].numpy()
        spread = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
        np.testing.assert_allclose(measured, spread, rtol=1e-5)
