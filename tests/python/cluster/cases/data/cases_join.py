"""Peers whose data end first change nothing in what the others do, until all have joined."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [
    {
        "np": 3,
        "cases": [
            "sums_and_means",
            "products_minima_and_maxima",
            "a_tape",
            "an_optimizer",
            "large_tensors",
            "a_member_of_a_group",
            "norms_are_measured",
            "what_it_takes_no_part_in",
        ],
    },
    {"np": 1, "cases": ["sums_and_means"]},
    {
        "np": 3,
        "env": {"KUNGFU_COLLECTIVE_TIMEOUT": "8"},
        "id": "in-time",
        "cases": ["whoever_does_not_come_is_named"],
    },
]
MODES = ["eager", "function"]
RATE = 0.125

GROUPS = {ranks: kf.Group(ranks) for ranks in [(0, 2)] if kf.size() == 3}


def joined():
    """This peer joins; the peer with the most steps is the last."""
    assert kf.data.join() == kf.size() - 1


@each(dtype=["float16", "float32", "float64", "int32", "uint8"], mode=MODES)
def case_sums_and_means(dtype, mode):
    """Rank r takes r + 1 steps."""

    def step(x):
        return kf.ops.all_reduce(x), kf.ops.all_reduce(tf.cast(x, tf.float64), op="mean", name="m")

    run = tf.function(step) if mode == "function" else step
    for _ in range(2):  # what comes after is in step
        for number in range(kf.rank() + 1):
            total, mean = run(tf.fill([3, number + 1], tf.cast(kf.rank() + 1, dtype)))
            active = sum(range(number + 1, kf.size() + 1))
            np.testing.assert_array_equal(total.numpy(), np.full([3, number + 1], active, dtype))
            np.testing.assert_allclose(mean.numpy(), np.full([3, number + 1], active / kf.size()))
        joined()


@each(dtype=["bfloat16", "float32", "float64", "int32", "int8", "uint8", "bool"])
def case_products_minima_and_maxima(dtype):
    """Who has joined is not asked: neither 0, which is no product, nor 0 as the least of some."""
    values = [2, 3, 2] if dtype in ("uint8", "bool") else [-2, -3, -2]
    for number in range(kf.rank() + 1):
        x = tf.cast(tf.fill([5], values[kf.rank()]), dtype)
        active = np.array(values[number:])
        for op, reduction in [("prod", np.prod), ("min", np.min), ("max", np.max)]:
            if dtype == "bool" and op == "prod":
                continue
            result = kf.ops.all_reduce(x, op=op, name=f"join/{op}/{dtype}")
            expected = np.full(5, bool(reduction(active)) if dtype == "bool" else reduction(active))
            np.testing.assert_array_equal(tf.cast(result, tf.float64).numpy(), expected)
    joined()


def targets():
    return np.random.default_rng(1).normal(size=(kf.size(), kf.size(), 4))  # [rank, step, ...]


def simulated():
    """The weights of the last rank. Peers that have joined count in the means, with zeros."""
    w = np.zeros(4)
    for number in range(kf.size()):
        active = targets()[number:, number]  # rank r takes r + 1 steps
        w = w - RATE * np.sum(w - active, axis=0) / kf.size()
    return w


def check_training(step, variables):
    for number in range(kf.rank() + 1):
        step(tf.constant(targets()[kf.rank(), number]))
    last = kf.data.join()
    assert last == kf.size() - 1
    kf.initializer.broadcast_variables(variables, root=last)
    np.testing.assert_allclose(variables[0].numpy(), simulated(), rtol=1e-12)


@each(mode=MODES)
def case_a_tape(mode):
    w = tf.Variable(np.zeros(4))

    def step(target):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_sum((w - target) ** 2) / 2
        w.assign_sub(RATE * tape.gradient(loss, w))

    check_training(tf.function(step) if mode == "function" else step, [w])


@each(mode=MODES)
def case_an_optimizer(mode):
    """Its steps are counted, and must be equal on all that exchange gradients."""
    w = tf.Variable(np.zeros(4))
    optimizer = kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(RATE))

    def step(target):
        optimizer.apply_gradients([(w - target, w)])

    run = tf.function(step) if mode == "function" else step
    check_training(run, [w])
    iterations = [optimizer.iterations]
    kf.initializer.broadcast_variables(iterations, root=kf.size() - 1)
    run(tf.constant(targets()[kf.rank(), 0]))
    np.testing.assert_allclose(
        w.numpy(), simulated() - RATE * (simulated() - targets()[:, 0].mean(axis=0)), rtol=1e-12
    )


def case_large_tensors():
    """In the memory of the host's peers, and in several chunks."""
    for _ in range(kf.rank() + 1):
        total = kf.ops.group_all_reduce([tf.ones([1 << 20]), tf.ones([3]), tf.ones([1 << 18])])
        for value in total:
            assert np.unique(value.numpy()).size == 1
    active = kf.size() - kf.rank()
    assert float(total[0][0]) == active and float(total[1][0]) == active
    joined()


def case_a_member_of_a_group():
    group = GROUPS[0, 2]
    if kf.rank() == 2:
        assert float(kf.ops.all_reduce(4.0, op="mean", group=group)) == 2.0
        kf.ops.all_reduce(1.0)
    joined()


def case_norms_are_measured():
    w = tf.Variable(np.zeros(4))
    make = kf.optimizers.MonitorGradientNoiseScaleOptimizer
    optimizer = make(tf.keras.optimizers.SGD(RATE), device_batch_size=4)
    for _ in range(kf.rank() + 1):
        optimizer.apply_gradients([(tf.ones_like(w), w)])
    joined()


@each(what=["all_gather", "broadcast", "reduce_scatter", "barrier", "rows"])
def case_what_it_takes_no_part_in(what):
    """It fails on all that do it, and names who has joined. Later operations are in step."""
    calls = {
        "all_gather": lambda: kf.ops.all_gather(1.0),
        "broadcast": lambda: kf.ops.broadcast(1.0),
        "reduce_scatter": lambda: kf.ops.reduce_scatter(tf.ones([6])),
        "barrier": kf.barrier,
        "rows": lambda: kf.ops.all_reduce(tf.IndexedSlices([[1.0]], [0], [3, 1])),
    }
    if kf.rank() > 0:
        kind = errors.FailedPreconditionError if what == "barrier" else None
        kind = kind or tf.errors.FailedPreconditionError
        text = str(raised_by(kind, calls[what]))
        assert "rank 0 (" in text and "has joined: it takes part in all_reduces only" in text, text
        assert float(kf.ops.all_reduce(1.0)) == 2
    kf.data.join()
    assert float(kf.ops.all_reduce(1.0)) == 3
    calls[what]()


def case_whoever_does_not_come_is_named():
    """It gets the same error when it comes. Then all are in step again."""
    if kf.rank() > 0:
        kf.ops.request_variable(0, name="gave up", shape=[], dtype=tf.int32, timeout=90)
    text = raised_by(errors.DeadlineExceededError, kf.data.join)
    assert "join at rank 0" in text and "rank 1 (" in text and "rank 2 (" in text, text
    if kf.rank() == 0:
        kf.ops.save_variable(1, name="gave up")
    for _ in range(kf.rank() + 1):
        active = kf.ops.all_reduce(1.0)
    assert float(active) == kf.size() - kf.rank()
    joined()
