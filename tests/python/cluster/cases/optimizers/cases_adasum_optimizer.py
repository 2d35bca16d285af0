"""The optimizer that combines updates by Adasum, against a simulation of all peers in NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each

import kungfu_tf as kf
from kungfu_tf import optimizers
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 2}, {"np": 1, "cases": ["as_in_numpy"]}]

STEPS = 20
RATE, MOMENTUM = 1 / 16, 7 / 8
TOLERANCE = 1e-10

tf.keras.backend.set_floatx("float64")


def batches():
    """[step, rank, sample, feature], and what the model should say."""
    random = np.random.default_rng(5)
    x = random.normal(size=(STEPS, kf.size(), 8, 3))
    return x, np.sin(x.sum(axis=-1, keepdims=True)) + np.arange(kf.size())[:, None, None]


def pair(a, b):
    product = np.sum(a * b)
    return (1 - product / (2 * np.sum(a * a))) * a + (1 - product / (2 * np.sum(b * b))) * b


def adasum(updates):
    """Of up to three peers: the last is combined with the first before."""
    if len(updates) == 3:
        updates = [pair(updates[0], updates[2]), updates[1]]
    return pair(*updates) if len(updates) == 2 else updates[0]


def simulated():
    """The weights of all peers after all steps: each keeps its own momentum."""
    weights, speeds = np.zeros(3), np.zeros([kf.size(), 3])
    for x, y in zip(*batches(), strict=True):
        error = x @ weights[:, None] - y
        speeds = MOMENTUM * speeds - RATE * 2 * np.mean(error * x, axis=1)
        weights = weights + adasum([*speeds])
    return weights


def linear_model():
    layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, use_bias=False)]
    model = tf.keras.Sequential(layers)
    model.set_weights([np.zeros((3, 1))])
    return model


@each(how=["eager", "function"])
def case_as_in_numpy(how):
    model = linear_model()
    optimizer = optimizers.AdasumOptimizer(tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM))

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    step = tf.function(step) if how == "function" else step
    for x, y in zip(*batches(), strict=True):
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
    trained = model.get_weights()[0][:, 0]
    np.testing.assert_allclose(trained, simulated(), rtol=TOLERANCE, atol=TOLERANCE)
    assert kf.ops.consensus(trained)


def case_in_a_session():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float64, [8, 3])
        y = v1.placeholder(tf.float64, [8, 1])
        weights = v1.get_variable("weights", initializer=tf.zeros([3, 1], tf.float64))
        loss = tf.reduce_mean(tf.square(x @ weights - y))
        optimizer = optimizers.AdasumOptimizer(v1.train.MomentumOptimizer(RATE, MOMENTUM))
        train = optimizer.minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for all_x, all_y in zip(*batches(), strict=True):
                session.run(train, {x: all_x[kf.rank()], y: all_y[kf.rank()]})
            trained = session.run(weights)[:, 0]
    np.testing.assert_allclose(trained, simulated(), rtol=TOLERANCE, atol=TOLERANCE)


def case_in_fit():
    """With batches whose numbers differ. All peers hold the same model, which is what is saved."""
    model = linear_model()
    optimizer = optimizers.AdasumOptimizer(tf.keras.optimizers.SGD(0.05, momentum=0.5))
    model.compile(optimizer, "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(32 + 8 * kf.rank(), 3))
    history = model.fit(x, x.sum(axis=1), batch_size=8, epochs=8, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < losses[0] / 10
    assert kf.ops.consensus(model.get_weights()[0])
    [algorithm] = generations.algorithms_of(optimizer)
    assert not algorithm.keeps_equal  # the slots are each peer's own
