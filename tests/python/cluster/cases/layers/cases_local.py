"""Layers of which each peer keeps its own weights, beside layers of which all have the same."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 1}, {"np": 3}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

RATE = 0.1
STEPS, SAMPLES = 4, 3


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


def expected(scale, steps_of_update=1, last=(SAMPLES, SAMPLES, SAMPLES)):
    """The shared weight, and each peer's own, by the definition of gradient descent.

    The last batch of each peer has so many samples: the means are those over all samples.
    """
    n = kf.size()
    shared, own = 1.0, np.arange(n) + 2.0
    of_shared, of_own = 0.0, np.zeros(n)
    for step in range(1, STEPS + 1):
        counts = [SAMPLES if step < STEPS else last[rank] for rank in range(n)]
        for rank, count in enumerate(counts):
            x, y = (part[:count] for part in batch(rank))
            error = 2 * (shared * own[rank] * x - y)
            share = count / sum(counts)
            of_shared += share * np.mean(error * own[rank] * x) / steps_of_update
            factor = share if scale is None else scale
            of_own[rank] += factor * np.mean(error * shared * x) / steps_of_update
        if step % steps_of_update == 0:
            shared, own = shared - RATE * of_shared, own - RATE * of_own
            of_shared, of_own = 0.0, np.zeros(n)
    return [own[kf.rank()], shared]


def found(model):
    return [generations.native(w).numpy().item() for w in model.trainable_variables]


def batches(last=SAMPLES):
    x, y = batch(kf.rank())
    x, y = (np.concatenate([*[part] * (STEPS - 1), part[:last]]) for part in (x, y))
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(SAMPLES)


@each(scale=[None, 1.0, 0.5])
def case_fit(scale):
    """Rank 0's own weights go to nobody, and differences of own weights stop nothing."""
    model = model_of(scale, SynchronousSGDOptimizer(keras.optimizers.SGD(RATE)))
    model.fit(batches(), verbose=0)
    np.testing.assert_allclose(found(model), expected(scale), rtol=1e-12)


@each(scale=[None, 0.5])
def case_several_steps_for_an_update_and_batches_that_differ(scale):
    """A peer's own weights know nothing of the others' number of samples, but for the mean."""
    last = [3, 2, 1]
    if training.is_keras_3():
        optimizer = keras.optimizers.SGD(RATE, gradient_accumulation_steps=2)
        model = model_of(scale, SynchronousSGDOptimizer(optimizer))
    else:
        optimizer = keras.optimizers.SGD(RATE)
        model = model_of(scale, SynchronousSGDOptimizer(optimizer, steps_per_update=2))
    model.fit(batches(last[kf.rank()]), verbose=0)
    np.testing.assert_allclose(found(model), expected(scale, 2, last), rtol=1e-12)


AVERAGING = {
    "sma": lambda optimizer: kf.optimizers.SynchronousAveragingOptimizer(optimizer, alpha=0.5),
    "pair": kf.optimizers.PairAveragingOptimizer,
    "neighbours": kf.optimizers.DecentralizedSGDOptimizer,
    "local": lambda optimizer: kf.optimizers.LocalSGDOptimizer(optimizer, every=1),
    "diloco": lambda optimizer: kf.optimizers.DiLoCoOptimizer(optimizer, every=1),
    "adasum": kf.optimizers.AdasumOptimizer,
}


@each(name=["sma", "pair", "neighbours", "local", "diloco", "adasum"], scale=[None, 0.5])
def case_models_that_are_averaged(name, scale):
    """A peer's own weights follow its own gradients alone."""
    model = model_of(scale)
    own, shared = [generations.native(w) for w in model.trainable_variables]
    shared.assign([[float(kf.rank())]])
    optimizer = AVERAGING[name](keras.optimizers.SGD(RATE))
    of_own, of_shared = tf.constant([[kf.rank() + 1.0]], tf.float64), tf.ones([1, 1], tf.float64)
    for _ in range(STEPS):
        optimizer.apply_gradients([(of_own, own), (of_shared, shared)])
    kf.barrier()
    factor = 1.0 if scale is None else scale
    expected_own = kf.rank() + 2.0 - STEPS * RATE * factor * (kf.rank() + 1.0)
    np.testing.assert_allclose(own.numpy().item(), expected_own, rtol=1e-12)


def case_the_switch_of_adaptive_sgd():
    """All peers get rank 0's momenta there, but for those of weights of their own."""
    model = model_of(1.0)
    own, shared = [generations.native(w) for w in model.trainable_variables]
    momentum = 0.5
    optimizer = kf.optimizers.AdaptiveSGDOptimizer(keras.optimizers.SGD(RATE, momentum), 2)
    of_own, of_shared = tf.constant([[kf.rank() + 1.0]], tf.float64), tf.ones([1, 1], tf.float64)
    expected_own, speed = kf.rank() + 2.0, 0.0
    for _ in range(STEPS):
        optimizer.apply_gradients([(of_own, own), (of_shared, shared)])
        speed = momentum * speed - RATE * (kf.rank() + 1.0)
        expected_own += speed
    np.testing.assert_allclose(own.numpy().item(), expected_own, rtol=1e-12)


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


def case_a_shared_layer_with_the_same_name():
    """So it is named as an optimizer's slot of the local one is."""
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE, momentum=0.9))
    layer, shared = (keras.layers.Dense(1, use_bias=False, name="layer") for _ in range(2))
    parts = [keras.Sequential([keras.layers.Input((1,)), x], name="part") for x in (layer, shared)]
    parts[1] = keras.Sequential([keras.layers.Input((1,)), parts[1]], name="other")
    model = keras.Sequential([keras.layers.Input((1,)), *parts])
    kf.layers.local(layer)
    model.compile(optimizer, "mse")
    shared.kernel.assign([[kf.rank() + 1.0]])
    model.fit(batches(), verbose=0)
    assert kf.ops.consensus(shared.kernel)


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
