"""Gradients of the collectives against their transposes.

The loss is the sum over peers r of <c_r, y_r>, where y_r is what peer r gets of a collective and
c_r differs between peers. Its gradient by a peer's input is known in closed form.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import operations_done, raised_by

import kungfu_tf as kf

JOBS = [{"np": 3}]
NEEDS_KERAS = False

MODES = ["eager", "function"]


def coefficients(rank, shape):
    return np.random.default_rng(100 + rank).integers(-4, 5, shape).astype(np.float64)


def gradient(mode, function, x):
    """The gradient of this peer's input; two operations run, there and back."""

    def run(value):
        with tf.GradientTape() as tape:
            tape.watch(value)
            y = function(value)
            loss = tf.reduce_sum(y * coefficients_like(y))
        return tape.gradient(loss, value)

    def coefficients_like(y):
        return tf.numpy_function(
            lambda shape: coefficients(kf.rank(), tuple(shape)), [tf.shape(y)], tf.float64
        )

    before = operations_done()
    result = (tf.function(run) if mode == "function" else run)(tf.constant(x))
    assert operations_done() - before == 2
    return result.numpy()


def everybody(shape):
    return [coefficients(rank, shape) for rank in range(kf.size())]


@each(mode=MODES)
def case_all_reduce(mode):
    x = np.ones((2, 3))
    total = sum(everybody((2, 3)))
    np.testing.assert_array_equal(gradient(mode, kf.ops.all_reduce, x), total)
    mean = gradient(mode, lambda t: kf.ops.all_reduce(t, op="mean"), x)
    np.testing.assert_array_equal(mean, total / kf.size())


@each(mode=MODES)
def case_group_all_reduce(mode):
    def function(t):
        first, nothing, second = kf.ops.group_all_reduce([t, None, 2 * t], op="mean")
        assert nothing is None
        return first + second

    result = gradient(mode, function, np.ones((2, 3)))
    np.testing.assert_array_equal(result, 3 * sum(everybody((2, 3))) / kf.size())


@each(mode=MODES)
def case_broadcast(mode):
    result = gradient(mode, lambda t: kf.ops.broadcast(t, root=1), np.ones(4))
    expected = sum(everybody(4)) if kf.rank() == 1 else np.zeros(4)
    np.testing.assert_array_equal(result, expected)


@each(mode=MODES)
def case_group_broadcast(mode):
    result = gradient(mode, lambda t: kf.ops.group_broadcast([t], root=1)[0], np.ones(4))
    expected = sum(everybody(4)) if kf.rank() == 1 else np.zeros(4)
    np.testing.assert_array_equal(result, expected)


@each(mode=MODES)
def case_reduce(mode):
    x = np.ones(4)
    of_root = coefficients(1, 4)
    result = gradient(mode, lambda t: kf.ops.reduce(t, "sum", root=1), x)
    np.testing.assert_array_equal(result, of_root)
    result = gradient(mode, lambda t: kf.ops.reduce(t, "mean", root=1), x)
    np.testing.assert_array_equal(result, of_root / kf.size())


@each(mode=MODES)
def case_all_gather(mode):
    shape = (kf.size(), 3, 2)
    result = gradient(mode, kf.ops.all_gather, np.ones((3, 2)))
    np.testing.assert_array_equal(result, sum(everybody(shape))[kf.rank()])


@each(mode=MODES)
def case_all_gather_ragged(mode):
    starts = np.cumsum([0, *range(kf.size())])  # rank r has r rows
    mine = slice(starts[kf.rank()], starts[kf.rank() + 1])
    result = gradient(mode, lambda t: kf.ops.all_gather(t, concat=True), np.ones((kf.rank(), 2)))
    np.testing.assert_array_equal(result, sum(everybody((starts[-1], 2)))[mine])


@each(mode=MODES)
def case_gather(mode):
    result = gradient(mode, lambda t: kf.ops.gather(t, root=1), np.ones(3))
    np.testing.assert_array_equal(result, coefficients(1, (kf.size(), 3))[kf.rank()])


@each(mode=MODES)
def case_gather_ragged(mode):
    starts = np.cumsum([0, *range(kf.size())])
    mine = slice(starts[kf.rank()], starts[kf.rank() + 1])
    result = gradient(
        mode, lambda t: kf.ops.gather(t, root=1, concat=True), np.ones((kf.rank(), 2))
    )
    np.testing.assert_array_equal(result, coefficients(1, (starts[-1], 2))[mine])


@each(mode=MODES)
def case_reduce_scatter(mode):
    parts = np.array_split(np.arange(7), kf.size())
    joined = np.concatenate([coefficients(r, (len(part), 2)) for r, part in enumerate(parts)])
    x = np.ones((7, 2))
    np.testing.assert_array_equal(gradient(mode, kf.ops.reduce_scatter, x), joined)
    mean = gradient(mode, lambda t: kf.ops.reduce_scatter(t, op="mean"), x)
    np.testing.assert_array_equal(mean, joined / kf.size())


@each(mode=MODES)
def case_all_to_all(mode):
    # Rank i sends i + j rows to rank j, so rank j gets the coefficients of its rows back.
    n, mine = kf.size(), kf.rank()
    splits = np.add.outer(np.arange(n), np.arange(n))
    back = []
    for j in range(n):
        received = coefficients(j, (splits[:, j].sum(), 2))
        back.append(np.split(received, np.cumsum(splits[:, j])[:-1])[mine])
    x = np.ones((splits[mine].sum(), 2))
    result = gradient(mode, lambda t: kf.ops.all_to_all(t, splits=splits[mine]), x)
    np.testing.assert_array_equal(result, np.concatenate(back))


@each(mode=MODES)
def case_scalars(mode):
    total = sum(coefficients(rank, (kf.size(),)) for rank in range(kf.size()))
    for concat in (False, True):
        result = gradient(mode, lambda t, c=concat: kf.ops.all_gather(t, concat=c), np.float64(1))
        np.testing.assert_array_equal(result, total[kf.rank()])


@each(op=["min", "max", "prod"])
def case_no_gradient(op):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = kf.ops.all_reduce(x, op=op, name=f"no gradient {op}")
    text = raised_by(kf.errors.UnimplementedError, lambda: tape.gradient(y, x))
    assert f"no gradient {op}" in text


def case_through_a_loop():
    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in tf.range(3):
                y = kf.ops.all_reduce(y * tf.cast(i + 1, y.dtype), op="mean")
        return y, tape.gradient(y, x)

    y, dy = run(tf.constant(2.0))
    np.testing.assert_allclose(y, 12.0)
    np.testing.assert_allclose(dy, 6.0)


def case_tf1_gradients():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant([1.0, 2.0])
        y = kf.ops.all_reduce(x * (kf.rank() + 1.0))
        (dy,) = tf.compat.v1.gradients(y, x)
        result = session.run(dy)
    np.testing.assert_array_equal(result, [kf.size() * (kf.rank() + 1.0)] * 2)
