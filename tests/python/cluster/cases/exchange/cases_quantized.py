"""Gradients of 8 and of 4 bits against a simulation of the docstrings in NumPy."""

from __future__ import annotations

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from codecs_in_numpy import RATE, assert_same, simulated, trained, trained_in_a_session
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.compression import Int4, Int8, PowerSGD
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [
    {"np": 3},
    {"np": 2, "cases": ["an_optimizer"]},
    {"np": 4, "cases": ["an_optimizer"]},
]

MODES = ["eager", "function"]
CODECS = {8: Int8, 4: Int4}
STEPS = 20
keras = tf.keras
keras.backend.set_floatx("float64")


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


@each(bits=[8, 4], mode=MODES, block=[16, 256])
@exhaustive(bits=[8, 4], mode=["function"], block=[16])
def case_an_optimizer(bits, mode, block):
    """With blocks of 256 elements there are fewer blocks than peers."""
    codec = CODECS[bits](block=block)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=codec)
    assert_same(
        trained(applying(optimizer), STEPS, mode), simulated(codecs.Quantized(bits, block), STEPS)
    )
    [algorithm] = generations.algorithms_of(optimizer)
    name = f"{algorithm.name}/gradients"
    done = [libraries.completed(f"{name}/{part}") for part in ("0", "gathered/0", "1")]
    assert done == [STEPS, STEPS, 0], done
    assert int(algorithm.state.exchanges) == STEPS


def case_a_session():
    found = trained_in_a_session(Int8(block=16), STEPS)
    assert_same(found, simulated(codecs.Quantized(8, 16), STEPS))


@each(bits=[8, 4])
def case_rounding_is_unbiased(bits):
    """The mean over many exchanges comes close to that of the gradients."""
    codec, most, exchanges = CODECS[bits](block=8), 2 ** (bits - 1) - 1, 400
    values = np.random.default_rng(3).normal(size=(kf.size(), 16))
    variable = tf.Variable(tf.zeros([16], tf.float64))

    @tf.function
    def mean_of_exchange():
        with kf.DistributedGradientTape(tf.GradientTape(), compression=codec) as tape:
            loss = tf.reduce_sum(variable * values[kf.rank()])
        return tape.gradient(loss, variable)

    means = np.array([mean_of_exchange() for _ in range(exchanges)])
    expected, step = values.mean(axis=0), np.abs(values).max() / most
    assert np.abs(means - expected).max() > step / 10
    # The deviation of a mean of so many uniform roundings, five times.
    assert np.abs(means.mean(axis=0) - expected).max() < 5 * step / np.sqrt(exchanges)


def case_elements_that_are_not_finite():
    """Their blocks are NaN on all peers, and the others are not."""
    for value in (np.nan, np.inf, -np.inf):
        variable = tf.Variable(tf.zeros([8], tf.float32))
        mine = np.arange(8, dtype=np.float32)
        mine[2] = value if kf.rank() == 1 else 2
        with kf.DistributedGradientTape(tf.GradientTape(), compression=Int8(block=4)) as tape:
            loss = tf.reduce_sum(variable * mine)
        mean = tape.gradient(loss, variable).numpy()
        assert np.all(np.isnan(mean[:4])) and np.all(np.isfinite(mean[4:])), mean


def case_zeros():
    variable = tf.Variable(tf.zeros([5]))
    with kf.DistributedGradientTape(tf.GradientTape(), compression=Int8()) as tape:
        loss = tf.reduce_sum(variable * 0.0)
    np.testing.assert_array_equal(tape.gradient(loss, variable), np.zeros(5))


def case_peers_with_different_codecs():
    for mine, words in (
        (Int8(block=64 << (kf.rank() == 1)), ("Int8(block=64)", "Int8(block=128)")),
        (PowerSGD() if kf.rank() == 1 else Int8(), ("Int8(block=256)", "PowerSGD(rank=4")),
    ):
        optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=mine)
        error = tf.errors.InvalidArgumentError
        text = raised_by(error, lambda o=optimizer: trained(applying(o), 1))
        assert all(word in text for word in words), text


def case_arguments():
    for codec in (Int8, Int4):
        assert "block" in raised_by(ValueError, lambda c=codec: c(block=0))
        for block in (1.5, True, "256"):
            text = raised_by(TypeError, lambda c=codec, b=block: c(block=b))
            assert f"{codec.__name__}: block" in text, text
    assert "even" in raised_by(ValueError, lambda: Int4(block=33))
