"""What a codec has not sent travels later: against a simulation of the docstring in NumPy."""

from __future__ import annotations

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from codecs_in_numpy import (
    RATE,
    assert_same,
    simulated,
    trained,
    trained_in_a_session,
    variables_of,
)
from harness import Skip, each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.compression import BySize, Cast, Codec, ErrorFeedback, Int4, PowerSGD, TopK
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

MODES = ["eager", "function"]
STEPS = 20
keras = tf.keras
keras.backend.set_floatx("float64")


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


def wrapped(codec=None):
    codec = ErrorFeedback(Int4(block=16)) if codec is None else codec
    return SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=codec)


def in_numpy():
    return codecs.ErrorFeedback(codecs.Quantized(4, 16))


def codec_of(optimizer):
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm.compression


INNER = {
    "int4": (lambda: Int4(block=16), lambda: codecs.Quantized(4, 16)),
    "half": (lambda: Cast("bfloat16"), codecs.Bfloat16),
    "large": (
        lambda: BySize(Int4(block=16), at_least=100),
        lambda: codecs.BySize(codecs.Quantized(4, 16), 100),
    ),
}


@each(codec=["int4", "half", "large"], mode=MODES)
@exhaustive(codec=["half", "large"], mode=["function"])
def case_an_optimizer(codec, mode):
    make, make_in_numpy = INNER[codec]
    optimizer = wrapped(ErrorFeedback(make()))
    expected = simulated(codecs.ErrorFeedback(make_in_numpy()), STEPS)
    assert_same(trained(applying(optimizer), STEPS, mode), expected)
    errors = codec_of(optimizer).state.errors
    assert [np.abs(e.numpy()).max() > 0 for e in errors[:2]] == [True, True]


def case_a_session():
    found = trained_in_a_session(ErrorFeedback(Int4(block=16)), STEPS)
    assert_same(found, simulated(in_numpy(), STEPS))


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_gradients_that_are_not_finite(mode):
    """Something of that gradient is NaN on all peers, and what is kept stays."""
    optimizer, variables = wrapped(), variables_of()
    trained(applying(optimizer), 3, mode, variables)
    before = [v.numpy() for v in codec_of(optimizer).state.errors]
    bad = [tf.ones_like(v) for v in variables]
    if kf.rank() == 1:
        values = np.ones(bad[1].shape)
        values[0, 0, 0, 0] = np.inf
        bad[1] = tf.constant(values)
    step = lambda: applying(optimizer)(bad, variables)  # noqa: E731
    (tf.function(step) if mode == "function" else step)()
    assert not np.all(np.isfinite(variables[1].numpy()))
    for variable, value in zip(codec_of(optimizer).state.errors, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def case_a_loss_scale():
    """What is kept has no scale."""
    if not hasattr(keras, "Variable"):
        raise Skip("Keras 3")
    optimizer, variables = wrapped(), variables_of()
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    found = trained(applying(scaled), 8, variables=variables, scale=64.0)
    assert_same(found, simulated(in_numpy(), 8))


@each(codec=["feedback", "top", "power"], mode=MODES)
@exhaustive(mode=["function"])
def case_a_feedback_that_is_not_finite(codec, mode):
    """Every peer says of which tensor, and on which rank."""
    make = {
        "feedback": lambda: ErrorFeedback(Int4(block=16)),
        "top": lambda: TopK(ratio=0.1, at_least=20),
        "power": lambda: PowerSGD(rank=1, min_rate=1),
    }
    optimizer, variables = wrapped(make[codec]()), variables_of()
    trained(applying(optimizer), 2, mode, variables)
    kept = codec_of(optimizer)
    if kf.rank() == 1:
        kept.state.errors[1].assign(np.full(kept.state.errors[1].shape, np.nan))
    error = tf.errors.InvalidArgumentError
    text = raised_by(error, lambda: trained(applying(optimizer), 1, mode, variables))
    assert "error feedback of a codec is not finite" in text, text
    assert "v1 on rank 1" in text, text
    assert "rank 0" not in text and "v0" not in text, text
    assert "v1 on rank 1" in raised_by(error, kept.share)


def case_peers_with_different_codecs():
    codec = Int4() if kf.rank() == 1 else ErrorFeedback(Int4())
    error = tf.errors.InvalidArgumentError
    text = raised_by(error, lambda: trained(applying(wrapped(codec)), 1))
    assert "ErrorFeedback(codec=Int4(block=128))" in text, text


def case_arguments():
    assert "codec" in raised_by(TypeError, lambda: ErrorFeedback("int4"))

    class Silent(Codec):
        pass

    for codec in (PowerSGD(), TopK(), ErrorFeedback(Int4()), Silent(), BySize(PowerSGD())):
        text = raised_by(ValueError, lambda c=codec: ErrorFeedback(c))
        assert "feedback of its own" in text, text


def case_each_optimizer_has_a_state_of_its_own():
    codec = ErrorFeedback(Int4(block=16))
    first, second = (codec_of(wrapped(codec)) for _ in range(2))
    assert len({id(one.codec) for one in (first, second, codec)}) == 3
    assert repr(first) == repr(second) == repr(codec)
