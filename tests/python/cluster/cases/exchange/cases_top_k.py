"""The largest elements of gradients, against a simulation of the docstring in NumPy."""

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
from kungfu_tf.compression import Cast, TopK
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [
    {"np": 3},
    {"np": 2, "cases": ["an_optimizer"]},
    {"np": 4, "cases": ["an_optimizer"]},
]

MODES = ["eager", "function"]
STEPS = 24
SETTINGS = {"ratio": 0.1, "at_least": 20}
keras = tf.keras
keras.backend.set_floatx("float64")


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


def wrapped(**options):
    options = {"compression": TopK(**SETTINGS), **options}
    return SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), **options)


def algorithm_of(optimizer):
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm


@each(mode=MODES, buckets=["one", "many"])
@exhaustive(mode=["function"], buckets=["one"])
def case_an_optimizer(mode, buckets):
    optimizer = wrapped(**({"bucket_bytes": 1} if buckets == "many" else {}))
    assert_same(
        trained(applying(optimizer), STEPS, mode), simulated(codecs.TopK(**SETTINGS), STEPS)
    )
    name = f"{algorithm_of(optimizer).name}/gradients"
    done = [libraries.completed(f"{name}/{part}") for part in ("0", "largest/0", "largest/1")]
    assert done == [STEPS, STEPS, STEPS if buckets == "many" else 0], done


def case_a_session():
    found = trained_in_a_session(TopK(**SETTINGS), STEPS)
    assert_same(found, simulated(codecs.TopK(**SETTINGS), STEPS))


def case_what_was_not_sent_is_sent_later():
    """The sum of what arrives, and of the mean of what is kept, is that of the gradients."""
    codec, variable = TopK(ratio=0.1, at_least=1), tf.Variable(tf.zeros([50], tf.float64))
    total, arrived = np.zeros(50), np.zeros(50)
    random = np.random.default_rng(2)
    for _ in range(20):
        of_all = random.normal(size=(kf.size(), 50))
        with kf.DistributedGradientTape(tf.GradientTape(), compression=codec) as tape:
            loss = tf.reduce_sum(variable * of_all[kf.rank()])
        arrived += tape.gradient(loss, variable).numpy()
        total += of_all.mean(axis=0)
    assert np.abs(arrived - total).max() > 0.1
    codec.share()
    [error] = codec.state.errors
    assert kf.ops.consensus(error)
    np.testing.assert_allclose(arrived + error.numpy(), total, rtol=1e-12, atol=1e-12)


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_gradients_that_are_not_finite(mode):
    """Something of that gradient is NaN on all peers, and what is kept stays."""
    optimizer, variables = wrapped(), variables_of()
    trained(applying(optimizer), 3, mode, variables)
    state = algorithm_of(optimizer).compression.state.variables
    before = [v.numpy() for v in state]
    bad = [tf.ones_like(v) for v in variables]
    if kf.rank() == 1:
        values = np.ones(bad[1].shape)
        values[0, 0, 0, 0] = np.inf
        bad[1] = tf.constant(values)
    step = lambda: applying(optimizer)(bad, variables)  # noqa: E731
    (tf.function(step) if mode == "function" else step)()
    assert not np.all(np.isfinite(variables[1].numpy()))
    assert np.all(np.isfinite(variables[0].numpy()))
    for variable, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def case_a_loss_scale():
    """What is kept has no scale."""
    if not hasattr(keras, "Variable"):
        raise Skip("Keras 3")
    optimizer, variables = wrapped(), variables_of()
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    found = trained(applying(scaled), 8, variables=variables, scale=64.0)
    assert_same(found, simulated(codecs.TopK(**SETTINGS), 8))


@each(dtype=["float16", "float32"])
@exhaustive(dtype=["float16"])
def case_dtypes(dtype):
    variable = tf.Variable(tf.cast(codecs.first()[0], dtype))
    codec = TopK(**SETTINGS)
    [target] = codecs.targets(1, [(12, 10)])[0]
    with kf.DistributedGradientTape(tf.GradientTape(), compression=codec) as tape:
        difference = variable - tf.cast(target[kf.rank()], dtype)
        loss = tf.reduce_sum(difference * tf.stop_gradient(difference))
    mean = tape.gradient(loss, variable)
    assert mean.dtype == dtype
    of_all = kf.ops.all_gather(tf.cast(difference, tf.float64)).numpy()
    expected = codecs.TopK(**SETTINGS).means([of_all])[0]
    np.testing.assert_allclose(tf.cast(mean, tf.float64), expected, rtol=0.01, atol=1e-3)
    assert kf.ops.consensus(tf.cast(mean, tf.float32))
    assert codec.state.errors[0].dtype == tf.float32


def case_the_movements_of_diloco():
    """Between a meeting and the next what was not sent is kept."""
    optimizer = DiLoCoOptimizer(
        keras.optimizers.SGD(RATE),
        outer=keras.optimizers.SGD(1.0),
        every=2,
        compression=TopK(**SETTINGS),
    )
    found = trained(applying(optimizer), 8)
    codec, anchors = codecs.TopK(**SETTINGS), codecs.first()
    values = [np.stack([anchor] * kf.size()) for anchor in anchors]
    for number, of_step in enumerate(codecs.targets(8)):
        values = [v - RATE * (v - t) for v, t in zip(values, of_step, strict=True)]
        if number % 2:
            moved = [a - v for a, v in zip(anchors, values, strict=True)]
            anchors = [a - mean for a, mean in zip(anchors, codec.means(moved), strict=True)]
            values = [np.stack([anchor] * kf.size()) for anchor in anchors]
            assert_same([found[number]], [anchors])


def case_peers_with_different_codecs():
    for other in (Cast("float16"), TopK(ratio=0.2, at_least=20), None):
        codec = other if kf.rank() == 1 else TopK(**SETTINGS)
        optimizer = wrapped(compression=codec)
        error = tf.errors.InvalidArgumentError
        text = raised_by(error, lambda o=optimizer: trained(applying(o), 1))
        assert "TopK(ratio=0.1, at_least=20)" in text and str(other) in text, text


def case_arguments():
    for ratio in (0, -0.1, 1.5):
        assert "ratio" in raised_by(ValueError, lambda r=ratio: TopK(ratio=r))
    for ratio in ("a tenth", None, True):
        assert "ratio" in raised_by(TypeError, lambda r=ratio: TopK(ratio=r))
    assert "at_least" in raised_by(ValueError, lambda: TopK(at_least=0))
    assert "at_least" in raised_by(TypeError, lambda: TopK(at_least=1.5))
