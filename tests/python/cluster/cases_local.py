"""Layers of which each peer keeps its own weights, beside layers of which all have the same."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 1}, {"np": 3}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

RATE = 0.1
STEPS = 4


def model_of(scale, optimizer=None):
    """y = shared · own · x: of one weight each, of which the own one begins with rank + 2."""
    own = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="own")
    shared = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="shared")
    model = keras.Sequential([keras.layers.Input((1,)), own, shared])
    kf.layers.local(own, scale=scale)
    own.kernel.assign([[kf.rank() + 2.0]])
    if optimizer is not None:
        model.compile(optimizer, "mse")
    return model


def batch(rank):
    return np.array([[1.0], [2.0], [-1.0]]) + 0.5 * rank, np.array([[1.0], [0.0], [2.0]])


def expected(scale):
    """The shared weight, and each peer's own, by the definition of gradient descent."""
    n = kf.size()
    factor = 1 / n if scale is None else scale
    shared, own = 1.0, np.arange(n) + 2.0
    for _ in range(STEPS):
        of_shared, of_own = [], []
        for rank in range(n):
            x, y = batch(rank)
            error = 2 * (shared * own[rank] * x - y)
            of_shared.append(np.mean(error * own[rank] * x))
            of_own.append(np.mean(error * shared * x))
        shared, own = shared - RATE * np.mean(of_shared), own - RATE * factor * np.array(of_own)
    return [own[kf.rank()], shared]


def found(model):
    return [generations.native(w).numpy().item() for w in model.trainable_variables]


def batches():
    x, y = batch(kf.rank())
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(3).repeat(STEPS)


@each(scale=[None, 1.0, 0.5])
def case_fit(scale):
    """Rank 0's own weights go to nobody, and differences of own weights stop nothing."""
    model = model_of(scale, SynchronousSGDOptimizer(keras.optimizers.SGD(RATE)))
    model.fit(batches(), verbose=0)
    np.testing.assert_allclose(found(model), expected(scale), rtol=1e-12)


@each(scale=[None, 0.5])
def case_tape(scale):
    model = model_of(scale)
    weights = [generations.native(w) for w in model.trainable_variables]

    @tf.function
    def step(x, y):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(RATE * gradient)

    for x, y in batches():
        step(x, y)
    np.testing.assert_allclose(found(model), expected(scale), rtol=1e-12)


def case_a_table_that_lies_on_all_peers_in_parts():
    """Shapes differ; so do those of the optimizer's slots, which go to nobody either."""
    keras.utils.set_random_seed(1)
    table = keras.layers.Embedding(3 + kf.rank(), 2, name="table")
    layers = [keras.layers.Input((1,)), table, keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    kf.layers.local(table)
    model.compile(SynchronousSGDOptimizer(keras.optimizers.Adam(0.1)), "mse")
    x = np.full((8, 1), 2 + kf.rank())
    model.fit(x, np.full((8, 1), 1.0 + kf.rank()), epochs=2, batch_size=4, verbose=0)
    _, kernel, bias = model.get_weights()
    assert kf.ops.consensus(kernel) and kf.ops.consensus(bias)
    assert kf.ops.all_gather(model.get_weights()[0], concat=True).shape[0] == sum(
        3 + rank for rank in range(kf.size())
    )


def case_what_is_no_layer_or_has_no_weights():
    assert "not a layer" in raised_by(TypeError, lambda: kf.layers.local(tf.Variable(1.0)))
    text = raised_by(ValueError, lambda: kf.layers.local(keras.layers.Dense(1)))
    assert "build it first" in text
    built = keras.layers.Dense(1)
    built.build((None, 1))
    assert "positive" in raised_by(ValueError, lambda: kf.layers.local(built, scale=0))
