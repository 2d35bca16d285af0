"""Sums in place of means, and means of gradients that were divided before they travelled."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.ops.gradient_values import values_of, with_values
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}, {"np": 4}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

ROWS = 5


def sparse(rank):
    """Rows of a gradient, of which one index comes twice and each peer has some."""
    values = tf.reshape(tf.range(6, dtype=tf.float64), [3, 2]) + rank
    return tf.IndexedSlices(values, tf.constant([rank % ROWS, 4, 4]), tf.constant([ROWS, 2]))


def dense(rank):
    return tf.fill([ROWS, 2], tf.constant(1.0 + rank**2, tf.float64))


GRADIENTS = {"dense": dense, "sparse": sparse}


def sum_of(kind):
    """By its definition."""
    make = GRADIENTS[kind]
    return sum(tf.convert_to_tensor(make(rank)).numpy() for rank in range(kf.size()))


@each(kind=["dense", "sparse"], op=["sum", "mean"])
def case_optimizers(kind, op):
    expected = sum_of(kind) / (1 if op == "sum" else kf.size())
    v1 = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    for plain in (*(make() for make in training.keras_optimizers("sgd")), v1):
        rate = 1.0 if plain is v1 else 0.05
        weight = tf.Variable(tf.zeros([ROWS, 2], tf.float64))
        optimizer = SynchronousSGDOptimizer(plain, op=op)
        optimizer.apply_gradients([(GRADIENTS[kind](kf.rank()), weight)])
        np.testing.assert_allclose(weight.numpy(), -rate * expected, rtol=1e-7)


@each(op=["sum", "mean"])
def case_tape(op):
    weight = tf.Variable(tf.ones([3], tf.float64))
    with kf.DistributedGradientTape(tf.GradientTape(), op=op) as tape:
        loss = tf.reduce_sum(weight * (kf.rank() + 1))
    ranks = sum(range(1, kf.size() + 1))
    expected = ranks if op == "sum" else ranks / kf.size()
    np.testing.assert_array_equal(tape.gradient(loss, weight), np.full(3, expected))


def case_fit():
    """The mean is the sum with a rate that is divided by the number of peers."""
    data = training.epoch()
    single = training.fit_single(
        training.dense_model(), keras.optimizers.SGD(0.05), training.whole(data)
    )
    optimizer = SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.05 / kf.size()), op="sum", bucket_bytes=1200
    )
    run = training.fit(training.dense_model(), optimizer, training.mine(data))
    assert training.differences(run, single, 1e-12) == []


@each(kind=["dense", "sparse"])
def case_what_is_divided_first_stays_finite(kind):
    """Beyond what float16 holds, by factors of two: the means are exact."""
    expected = 2.0**17 * sum_of(kind) / kf.size()
    for predivide in (1, 256.0):
        weight = tf.Variable(tf.zeros([ROWS, 2]))
        plain = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        optimizer = SynchronousSGDOptimizer(
            plain, predivide=predivide, compression=kf.compression.Cast("float16")
        )
        gradient = GRADIENTS[kind](kf.rank())
        values = 2.0**17 * tf.cast(values_of(gradient), tf.float32)
        optimizer.apply_gradients([(with_values(gradient, values), weight)])
        if predivide == 1 and kind == "dense":
            assert np.isinf(weight.numpy()).all()
        else:  # sparse rows travel as they are
            np.testing.assert_array_equal(weight.numpy(), -expected.astype(np.float32))


@each(mode=["eager", "function"])
def case_what_is_divided_first_loses_its_last_bits(mode):
    """The smallest float16 has no quarter."""
    weight = tf.Variable(np.zeros(2, np.float16))
    smallest = np.float16(2**-24)

    def run():
        with kf.DistributedGradientTape(tf.GradientTape(), predivide=4) as tape:
            loss = tf.reduce_sum(weight * np.array([smallest, 4 * smallest], np.float16))
        return tape.gradient(loss, weight)

    mean = (tf.function(run) if mode == "function" else run)()
    np.testing.assert_array_equal(mean, np.array([0, 4 * smallest], np.float16))


@each(
    wrong=[
        {"predivide": 0},
        {"predivide": -2.0},
        {"predivide": 1e999},
        {"predivide": 2.0, "op": "sum"},
        {"predivide": "2"},
    ]
)
def case_no_such_factor(wrong):
    kind = TypeError if wrong["predivide"] == "2" else ValueError
    for make in (
        lambda: SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), **wrong),
        lambda: kf.DistributedGradientTape(tf.GradientTape(), **wrong),
    ):
        assert "predivide" in str(raised_by(kind, make))


def case_no_such_reduction():
    for make in (
        lambda: SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), op="max"),
        lambda: kf.DistributedGradientTape(tf.GradientTape(), op="max"),
    ):
        assert "'mean' or 'sum'" in raised_by(ValueError, make)
