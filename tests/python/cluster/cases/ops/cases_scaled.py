"""Factors before and after reductions, by their definition."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, check, numpy_dtype, raised_by

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 3}, {"np": 1}]
NEEDS_KERAS = False

PRE, POST = 0.5, 0.75
EXACT = ["float16", "bfloat16", "float32", "float64", "complex64"]  # small numbers, and halves
INTEGER = ["uint8", "int32", "int64"]
MODES = {"eager": lambda f: f, "function": lambda f: tf.function(f, autograph=False)}


def times(x, factor):
    """Integers: in float64, and cut off."""
    return (x.astype(np.result_type(x.dtype, np.float64)) * factor).astype(x.dtype)


def scaled_sum(x):
    total = np.sum(np.stack([times(each_array, PRE) for each_array in x]), axis=0)
    return times(total.astype(x[0].dtype), POST)


@each(dtype=EXACT + INTEGER)
def case_sums(dtype):
    x = arrays(dtype)
    mine, expected = x[kf.rank()], scaled_sum(x)
    factors = {"prescale": PRE, "postscale": POST}
    check(lambda t: kf.ops.all_reduce(t, **factors), mine, expected)
    check(lambda t: kf.ops.group_all_reduce([None, t], **factors)[1], mine, expected)
    rows = np.array_split(expected, kf.size())[kf.rank()]
    check(lambda t: kf.ops.reduce_scatter(t, **factors), mine, rows)


@each(op=["min", "max", "prod", "mean"])
def case_other_reductions(op):
    x = arrays("float64")
    function = {"min": np.min, "max": np.max, "prod": np.prod, "mean": np.mean}[op]
    expected = POST * function(np.stack(x) * PRE, axis=0)
    result = kf.ops.all_reduce(x[kf.rank()], op=op, prescale=PRE, postscale=POST)
    np.testing.assert_allclose(result, expected, rtol=1e-15)


def case_integers_are_cut_off_towards_zero():
    x = np.array([-7, 7, 3], np.int32)
    check(lambda t: kf.ops.all_reduce(t, prescale=0.5), x, np.array([-3, 3, 1], "i4") * kf.size())


def case_half_precision_is_scaled_in_float32():
    """The factor itself has no float16: with it, the product would be 0."""
    x = np.full([2], 32768, np.float16)
    check(
        lambda t: kf.ops.all_reduce(t, op="max", prescale=2.0**-25), x, x * np.float16(0) + 2**-10
    )


@each(mode=["eager", "function"])
def case_sparse_rows(mode):
    @MODES[mode]
    def run():
        rows = tf.IndexedSlices([[float(kf.rank() + 1)]], [kf.rank()], [kf.size(), 1])
        given = {"prescale": PRE, "postscale": POST}
        one = kf.ops.all_reduce(rows, **given)
        (other,) = kf.ops.group_all_reduce([rows], **given)
        return tf.convert_to_tensor(one), tf.convert_to_tensor(other)

    expected = PRE * POST * np.arange(1.0, kf.size() + 1)[:, None]
    for result in run():
        np.testing.assert_array_equal(result, expected.astype(numpy_dtype("float32")))


@each(mode=["eager", "function"])
def case_gradients(mode):
    """Of a loss that is the sum over peers of c · y."""
    c = [np.random.default_rng(5 + r).integers(-4, 5, 6).astype(float) for r in range(kf.size())]
    parts = np.array_split(np.stack(c).T, kf.size())  # rows of y, and all peers' numbers for them

    @MODES[mode]
    def run(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            whole = kf.ops.all_reduce(x, prescale=PRE, postscale=POST)
            mine = kf.ops.reduce_scatter(x, prescale=PRE, postscale=POST)
            losses = tf.reduce_sum(whole * c[kf.rank()]), tf.reduce_sum(mine * of_mine)
        return [tape.gradient(loss, x) for loss in losses]

    of_mine = parts[kf.rank()][:, kf.rank()]
    whole, scattered = run(tf.ones([6], tf.float64))
    np.testing.assert_allclose(whole, PRE * POST * sum(c))
    owners = np.concatenate([part[:, rank] for rank, part in enumerate(parts)])
    np.testing.assert_allclose(scattered, PRE * POST * owners)


def case_what_is_no_number():
    text = raised_by(
        errors.UnsupportedTypeError,
        lambda: kf.ops.all_reduce(tf.constant([True]), op="max", prescale=0.5),
    )
    assert "the tensor of shape (1,) of dtype bool" in text
