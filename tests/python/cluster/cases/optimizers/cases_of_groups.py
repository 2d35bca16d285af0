"""Optimizers with a group: each method by its definition, among the members."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each

import kungfu_tf as kf
from kungfu_tf import groups, topology
from kungfu_tf.optimizers.pair_averaging import PairAveraging, random_partner

JOBS = [{"np": 4}]
NEEDS_KERAS = True

GROUPS = {ranks: kf.Group(ranks) for ranks in [(0, 2), (1, 3), (1, 2, 3)]}
RATE, STEPS = 0.125, 5  # a rate that float32 has exactly


def targets(ranks):
    """What the loss of each member, |w − target|² / 2, draws its weights to."""
    return np.stack([np.random.default_rng(rank).normal(size=6) for rank in ranks])


def adasum(a, b):
    return (1 - a @ b / (2 * a @ a)) * a + (1 - a @ b / (2 * b @ b)) * b


# The weights of all members after a step, out of those before. `past` has those of all steps.


def averaging(w, gradients, number, past):
    return 0.5 * w + 0.5 * w.mean(axis=0) - RATE * gradients


def synchronous(w, gradients, number, past):
    return w - RATE * gradients.mean(axis=0)


def adding_up(w, gradients, number, past):
    return w + adasum(*(-RATE * gradients))


def adaptive(w, gradients, number, past):
    after = (averaging if number < 3 else synchronous)(w, gradients, number, past)
    return np.broadcast_to(after[0], after.shape) if number == 2 else after


def meeting(w, gradients, number, past):
    after = w - RATE * gradients
    return np.broadcast_to(after.mean(axis=0), after.shape) if number % 2 else after


def following(w, gradients, number, past):
    """The anchor is where all were before the last step of the first of two."""
    after = w - RATE * gradients
    anchor = past[number - 1]
    return anchor + 0.5 * (after.mean(axis=0) - anchor) if number % 2 else after


def mixed(w, gradients, number, past):
    return topology.base_graph().at(number, len(w)) @ (w - RATE * gradients)


def paired(w, gradients, number, past):
    others = w[::-1] if number else w  # nobody has published before the first step
    return (w + others) / 2 - RATE * gradients


def in_lockstep(optimizer, group):
    make = lambda: PairAveraging(lockstep=True)  # noqa: E731
    return kf.optimizers.wrap(optimizer, make, group=group)


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
    "local": (kf.optimizers.LocalSGDOptimizer, {"every": 2}, meeting),
    "diloco": (
        *(kf.optimizers.DiLoCoOptimizer, {"every": 2, "outer": tf.keras.optimizers.SGD(0.5)}),
        following,
    ),
    "streaming": (
        *(
            kf.optimizers.DiLoCoOptimizer,
            {"every": 3, "overlap": 1, "outer": tf.keras.optimizers.SGD(0.5)},
        ),
        None,  # its steps are those of cases_streaming.py
    ),
    "decentralized": (kf.optimizers.DecentralizedSGDOptimizer, {}, mixed),
    "pair": (in_lockstep, {}, paired),
}
NAMES = ["sma", "adasum", "adaptive", "variance", "noise"]
NAMES += ["local", "diloco", "decentralized", "pair"]


@each(method=NAMES, mode=["eager", "function"])
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
    past = [w]
    for number in range(STEPS):
        run()
        gradients = w - target
        w = definition(w, gradients, number, past)
        past.append(w)
        np.testing.assert_allclose(variable.numpy(), w[group.rank()], rtol=1e-12, atol=1e-14)
    if method == "variance":
        measured = optimizer.kungfu_algorithm.metrics["gradient_variance"].numpy()
        spread = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
        np.testing.assert_allclose(measured, spread, rtol=1e-5)


@each(method=["local", "diloco", "streaming"])
def case_a_last_meeting(method):
    """Outside of a step, too, the peers of the method are those of the group."""
    ranks = (0, 2) if kf.rank() in (0, 2) else (1, 3)
    make, arguments, _ = METHODS[method]
    optimizer = make(tf.keras.optimizers.SGD(RATE), **arguments, group=GROUPS[ranks])
    variable = tf.Variable([float(kf.rank())], dtype=tf.float64)
    optimizer.apply_gradients([(tf.ones_like(variable), variable)])
    optimizer.kungfu_algorithm.finish()
    # DiLoCo begins where the first member is.
    expected = np.mean(ranks) - RATE if method == "local" else ranks[0] - 0.5 * RATE
    np.testing.assert_allclose(variable.numpy(), [expected], rtol=1e-12)


def case_partners_are_members():
    group = GROUPS[1, 2, 3]
    if not group.included:
        return
    optimizer = kf.optimizers.PairAveragingOptimizer(tf.keras.optimizers.SGD(RATE), group=group)
    algorithm = optimizer.kungfu_algorithm
    with groups.among(group):
        of_group = [int(random_partner(step)) for step in range(20)]
        found = {int(algorithm._rank_of(random_partner(step))) for step in range(20)}
    assert set(of_group) == {0, 1, 2} - {group.rank()}
    assert found == {1, 2, 3} - {kf.rank()}
