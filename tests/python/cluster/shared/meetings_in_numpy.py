"""A linear model whose peers meet after some steps, and the same in NumPy, from the docstrings.

Each peer simulates all peers. The model is trained by gradient descent with momentum.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training

import kungfu_tf as kf
from kungfu_tf.optimizers import DiLoCoOptimizer, LocalSGDOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
keras.backend.set_floatx("float64")
RATE, MOMENTUM = 1 / 16, 7 / 8
TOLERANCE = 1e-12
FIRST = np.random.default_rng(6).normal(size=4)  # weights; the last is the bias


def batches(steps):
    """[step, rank, sample, feature], and what the model should say."""
    random = np.random.default_rng(5)
    x = random.normal(size=(steps, kf.size(), 8, 3))
    return x, np.sin(x.sum(axis=-1, keepdims=True)) + np.arange(kf.size())[:, None, None]


def gradients(weights, x, y):
    """Of the mean squared error of each peer's batch."""
    error = x @ weights[:, :3, None] + weights[:, None, 3:] - y
    by_weight = 2 * np.mean(error * x, axis=1)
    return np.concatenate([by_weight, 2 * np.mean(error, axis=1)], axis=1)


class LocalSGD:
    """What the meetings do to the weights, [rank, weight]."""

    def __init__(self, every, start=0):
        self.every = every
        self.start = start

    def is_synchronous(self, step):
        return step < self.start

    def meets_after(self, step):
        return step >= self.start and (step + 1 - self.start) % self.every == 0

    def meet(self, weights):
        return np.broadcast_to(weights.mean(axis=0), weights.shape)


class DiLoCo(LocalSGD):
    def __init__(self, every, rate, momentum, nesterov=True):
        super().__init__(every)
        self.anchor = FIRST
        self.speed = np.zeros(4)
        self.rate, self.momentum, self.nesterov = rate, momentum, nesterov

    def meet(self, weights):
        step = self.rate * (self.anchor - weights.mean(axis=0))
        self.speed = self.momentum * self.speed - step
        move = self.momentum * self.speed - step if self.nesterov else self.speed
        self.anchor = self.anchor + move
        return np.broadcast_to(self.anchor, weights.shape)


def simulated(method, steps):
    """The weights after so many steps, [rank, weight]."""
    weights = np.broadcast_to(FIRST, [kf.size(), 4])
    speeds = np.zeros([kf.size(), 4])
    for step, (x, y) in enumerate(zip(*batches(steps), strict=True)):
        g = gradients(weights, x, y)
        if method.is_synchronous(step):
            g = np.broadcast_to(g.mean(axis=0), g.shape)
        speeds = MOMENTUM * speeds - RATE * g
        weights = weights + speeds
        if method.meets_after(step):
            weights = method.meet(weights)
    return weights


def sgd(rate=RATE, momentum=MOMENTUM, **options):
    return keras.optimizers.SGD(rate, momentum=momentum, **options)


# How an optimizer is wrapped, and how that is simulated.
METHODS = {
    "local": (lambda o: LocalSGDOptimizer(o, every=4), lambda: LocalSGD(4)),
    "post-local": (lambda o: LocalSGDOptimizer(o, every=4, start=11), lambda: LocalSGD(4, 11)),
    "diloco": (
        lambda o: DiLoCoOptimizer(
            o, outer=keras.optimizers.SGD(5 / 8, momentum=3 / 4, nesterov=True), every=4
        ),
        lambda: DiLoCo(4, 5 / 8, 3 / 4),
    ),
    "slowmo": (
        lambda o: DiLoCoOptimizer(o, outer=keras.optimizers.SGD(7 / 8, momentum=1 / 2), every=6),
        lambda: DiLoCo(6, 7 / 8, 1 / 2, nesterov=False),
    ),
}


def model_of(first=FIRST):
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.set_weights([first[:3, None], first[3:]])
    return model


def train(optimizer, steps, mode="function"):
    """This peer's weights after so many steps of a loop."""
    model = model_of()
    step = training.step_of(model, optimizer)
    step = tf.function(step) if mode == "function" else step
    for x, y in zip(*batches(steps), strict=True):
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
    return model


def algorithm_of(optimizer):
    """Of a wrapped optimizer."""
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def families():
    """The modules of this Keras that have optimizers."""
    found = [keras.optimizers]
    return found if training.is_keras_3() else [*found, keras.optimizers.legacy]
