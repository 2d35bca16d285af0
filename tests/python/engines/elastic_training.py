"""A training whose weights tell how many steps it has made, whoever made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kungfu_tf as kf

RATE = 1e-4
NEVER = 10**6  # epochs


def training() -> Callable[..., Any]:
    """A function that travels with all that it uses."""
    rate, epochs = RATE, NEVER

    def train(after_step):
        """Trains y = w·x + b on ones until the model stops.

        Args:
            after_step: Called after each step with the model and the sizes of the job so far.

        Returns:
            The rank, the sizes, the number of steps, and w and b, from 0 on.
        """
        import keras
        import tensorflow as tf

        keras.backend.set_floatx("float64")
        dense = keras.layers.Dense(1, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((1,)), dense])
        model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(rate)), "mse")
        sizes = []

        class EachStep(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if sizes[-1:] != [kf.size()]:
                    sizes.append(kf.size())
                after_step(model, sizes)

        ones = tf.ones((64, 1), tf.float64)
        rows = kf.data.shard(tf.data.Dataset.from_tensor_slices((ones, ones))).batch(4)
        kf.elastic.fit(model, rows, epochs=epochs, callbacks=[EachStep()], verbose=0)
        weights = [float(weight.numpy().item()) for weight in model.weights]
        return kf.rank(), sizes, int(model.optimizer.iterations), weights

    return train


def trained(steps: int) -> float:
    """w and b after so many steps: both lose rate · 2 (w + b − 1), however many peers there are."""
    w = 0.0
    for _ in range(steps):
        w -= RATE * 2 * (2 * w - 1)
    return w


def check(told: list[tuple[int, list[int], int, list[float]]], size: int) -> None:
    """The peers of the end have made the same steps, and none twice."""
    assert [rank for rank, *_ in told] == [*range(size)]
    assert len({(steps, tuple(weights)) for _, _, steps, weights in told}) == 1
    _, _, steps, weights = told[0]
    np.testing.assert_allclose(weights, 2 * [trained(steps)], rtol=1e-9)
