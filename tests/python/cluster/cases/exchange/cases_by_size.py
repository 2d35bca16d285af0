"""Large gradients by one codec and small ones by another, against a simulation in NumPy."""

from __future__ import annotations

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from codecs_in_numpy import RATE, assert_same, simulated, trained, variables_of
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.compression import BySize, Int8, PowerSGD, TopK
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

MODES = ["eager", "function"]
STEPS, AT_LEAST = 20, 100  # elements: two of the five tensors
keras = tf.keras
keras.backend.set_floatx("float64")
POWER = {"rank": 2, "min_rate": 1}


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


def wrapped(codec):
    return SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=codec)


def algorithm_of(optimizer):
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm


@each(otherwise=["none", "int8"], mode=MODES)
@exhaustive(mode=["function"])
def case_an_optimizer(otherwise, mode):
    small, in_numpy = {
        "none": (None, None),
        "int8": (Int8(block=4), codecs.Quantized(8, 4)),
    }[otherwise]
    optimizer = wrapped(BySize(PowerSGD(**POWER), at_least=AT_LEAST, otherwise=small))
    expected = codecs.BySize(codecs.PowerSGD(**POWER), AT_LEAST, in_numpy)
    assert_same(trained(applying(optimizer), STEPS, mode), simulated(expected, STEPS))
    name = f"{algorithm_of(optimizer).name}/gradients"
    done = [libraries.completed(f"{name}/{part}") for part in ("0", "large/0", "large/right/0")]
    assert done == [STEPS] * 3, done
    state = algorithm_of(optimizer).compression.state
    assert len(state.codec.errors) == 2
    assert small is None or int(state.otherwise.exchanges) == STEPS


def case_small_gradients_travel_as_they_are():
    optimizer = wrapped(BySize(Int8(block=16), at_least=AT_LEAST))
    expected = codecs.BySize(codecs.Quantized(8, 16), AT_LEAST)
    assert_same(trained(applying(optimizer), 5), simulated(expected, 5))


def case_all_are_of_one_size():
    """The codec then meets the others in the first name, as it does alone."""
    optimizer = wrapped(BySize(Int8(block=16), at_least=1))
    assert_same(trained(applying(optimizer), 5), simulated(codecs.Quantized(8, 16), 5))
    assert libraries.completed(f"{algorithm_of(optimizer).name}/gradients/0") == 5
    optimizer = wrapped(BySize(Int8(block=16), at_least=1000))
    assert_same(trained(applying(optimizer), 5), simulated(codecs.Plain(), 5))


def case_a_small_gradient_that_is_not_finite():
    """The codec of the large ones leaves its state alone: a loss scale skips such a step."""
    optimizer, variables = wrapped(BySize(PowerSGD(**POWER), at_least=AT_LEAST)), variables_of()
    trained(applying(optimizer), 2, variables=variables)
    state = algorithm_of(optimizer).compression.state.codec
    before = [v.numpy() for v in state.errors]
    bad = [tf.ones_like(v) for v in variables]
    if kf.rank() == 1:
        bad[2] = tf.constant(np.full(bad[2].shape, np.nan))
    applying(optimizer)(bad, variables)
    for variable, value in zip(state.errors, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def case_peers_with_different_codecs():
    mine = BySize(Int8(), at_least=100 << (kf.rank() == 1))
    error = tf.errors.InvalidArgumentError
    text = raised_by(error, lambda: trained(applying(wrapped(mine)), 1))
    assert "at_least=100" in text and "at_least=200" in text, text


def case_arguments():
    assert "codec" in raised_by(TypeError, lambda: BySize(None))
    assert "codec" in raised_by(TypeError, lambda: BySize(Int8(), otherwise="none"))
    for at_least in (1.5, True, "many"):
        text = raised_by(TypeError, lambda n=at_least: BySize(Int8(), at_least=n))
        assert "at_least" in text, text
    assert "at_least" in raised_by(ValueError, lambda: BySize(TopK(), at_least=0))
