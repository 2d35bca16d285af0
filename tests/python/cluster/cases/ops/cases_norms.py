"""Norms that are measured while gradients are reduced, beside NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import numpy_dtype, operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.measured_norms import Norms
from kungfu_tf.native import libraries
from kungfu_tf.ops import norms

JOBS = [{"np": 3}]
NEEDS_KERAS = False

SHAPES = [(300001,), (), (0,), (7, 300)]


def values_of(rank, dtype, shapes=SHAPES):
    random = np.random.default_rng(100 + rank)
    arrays = [0.1 + random.normal(size=shape) for shape in shapes]
    if dtype.startswith("complex"):
        arrays = [array + 2j * random.normal(size=array.shape) for array in arrays]
    return [array.astype(numpy_dtype(dtype)) for array in arrays]


def squares(arrays):
    wide = [np.asarray(array, np.complex128) for array in arrays]
    return sum(np.sum(np.square(array.real) + np.square(array.imag)) for array in wide)


def mean_of_squares(dtype, shapes=SHAPES):
    return np.mean([squares(values_of(rank, dtype, shapes)) for rank in range(kf.size())])


@each(
    dtype=["float16", "bfloat16", "float32", "float64", "complex64", "complex128"],
    form=["eager", "function"],
)
def case_group_mean(dtype, form):
    name = f"norms/{dtype}/{form}"

    def run(*values):
        return norms.group_mean(values, wanted=True, name=name, step=3)

    run = tf.function(run) if form == "function" else run
    # Products lie in TensorFlow's own memory; a constant may lie in NumPy's.
    mine = [tf.constant(array, dtype) * 1 for array in values_of(kf.rank(), dtype)]
    before = operations_done(), libraries.statistics()["direct"]
    means, own, mean = run(*mine)
    assert operations_done() == before[0] + 1 and libraries.completed(name) == 1
    assert libraries.statistics()["direct"] == before[1] + 1
    assert own.dtype == mean.dtype == tf.float64
    plain = kf.ops.group_all_reduce(mine, op="mean", name=f"{name}/plain")
    means = [tensor.numpy() for tensor in means]
    for found, expected in zip(means, plain, strict=True):
        np.testing.assert_array_equal(found, expected.numpy())
    np.testing.assert_allclose(own, mean_of_squares(dtype), rtol=1e-12)
    np.testing.assert_allclose(mean, squares(means), rtol=1e-12)
    assert kf.ops.consensus(tf.stack([own, mean]))


def case_nobody_has_what_one_does_not_want():
    mine = [tf.fill([1000], float(kf.rank()))]
    [found], own, mean = norms.group_mean(mine, wanted=kf.rank() != 1, name="unwanted")
    np.testing.assert_array_equal(found, np.full(1000, 1.0))
    assert np.isnan(own) and np.isnan(mean)


def case_means_are_differentiable():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        [mean], _, _ = norms.group_mean([x], wanted=True, name="differentiable")
        loss = tf.reduce_sum(mean * (kf.rank() + 1.0))
    np.testing.assert_allclose(tape.gradient(loss, x), [2.0, 2.0])  # the mean of 1, 2 and 3


def case_all_must_ask():
    def run():
        x = [tf.zeros([3])]
        if kf.rank() == 0:
            return norms.group_mean(x, wanted=True, name="asked")
        return kf.ops.group_all_reduce(x, op="mean", name="asked")

    assert "'asked'" in raised_by(tf.errors.InvalidArgumentError, run)


def case_numbers_of_other_kinds_have_none():
    text = raised_by(
        kf.errors.UnsupportedTypeError,
        lambda: norms.group_mean([tf.constant([1, 2])], wanted=True, name="whole"),
    )
    assert "the norm is not defined" in text


@each(sums_rows=[False, True])
def case_buckets_of_any_kind(sums_rows):
    """Several dtypes, several buckets of one, and slices, of which those of one row are one."""
    shapes = [(50,), (60,), (3,)]
    rows = np.array([1, 0, 1])
    dtypes = ["float32", "float64", "float32"]

    def given(rank):
        dense = [values_of(rank, d, [s])[0] for d, s in zip(dtypes, shapes, strict=True)]
        return dense, values_of(rank, "float64", [(3, 2)])[0]

    def table(values):
        whole = np.zeros((2, 2))
        np.add.at(whole, rows, values)
        return whole

    dense, values = given(kf.rank())
    slices = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([2, 2]))
    gradients = [*map(tf.constant, dense), None, slices]
    variables = [*map(tf.zeros, shapes), tf.zeros([1]), tf.zeros([2, 2])]
    measured = Norms(tf.constant(True))
    mean_gradients(
        gradients,
        variables,
        bucket_bytes=200,
        name=f"buckets/{sums_rows}",
        measured=measured,
        sums_rows=sums_rows,
    )
    of_all = [given(rank) for rank in range(kf.size())]
    arrays = [[*dense, table(values)] for dense, values in of_all]
    means = [np.mean(group, axis=0) for group in zip(*arrays, strict=True)]
    own, mean = measured.totals()
    np.testing.assert_allclose(own, np.mean([squares(each) for each in arrays]), rtol=1e-12)
    np.testing.assert_allclose(mean, squares(means), rtol=1e-6)
    assert kf.ops.consensus(tf.stack([own, mean]))
