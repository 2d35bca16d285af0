"""Methods in which each peer applies its own gradients."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each

import kungfu_tf as kf

JOBS = [{"np": 2}]

RATE = 1 / 16

tf.keras.backend.set_floatx("float64")


@each(accumulates=[False, True])
def case_batches_that_differ_in_size(accumulates):
    """A peer's own gradients count as they are, whatever the others' batches."""
    if accumulates and not training.is_keras_3():
        raise Skip("Keras 2 cannot accumulate")
    options = {"gradient_accumulation_steps": 2} if accumulates else {}
    rows = 4 * (kf.rank() + 1)
    x = np.random.default_rng(kf.rank()).normal(size=(4 * rows, 3))
    y = x.sum(axis=1, keepdims=True)
    optimizer = kf.optimizers.SynchronousAveragingOptimizer(
        tf.keras.optimizers.SGD(RATE, **options),
        alpha=1e-14,  # so little that each peer trains as if alone
    )
    layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, use_bias=False)]
    model = tf.keras.Sequential(layers)
    model.set_weights([np.ones((3, 1))])
    model.compile(optimizer, "mse")
    seen = []

    class Look(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(model.get_weights()[0][:, 0])

    model.fit(x, y, batch_size=rows, shuffle=False, verbose=0, callbacks=[Look()])
    weights, total = np.ones(3), np.zeros(3)
    steps = 2 if accumulates else 1
    for step in range(4):
        part = slice(step * rows, (step + 1) * rows)
        total += 2 * np.mean((x[part] @ weights[:, None] - y[part]) * x[part], axis=0) / steps
        if (step + 1) % steps == 0:
            weights, total = weights - RATE * total, np.zeros(3)
        np.testing.assert_allclose(seen[step], weights, rtol=1e-9)
