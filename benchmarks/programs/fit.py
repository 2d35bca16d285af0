"""One process of a system: `fit` of a small CNN on images, batches of 32.

fit.py SYSTEM REPORT EPOCHS

The first process writes "step SECONDS" to REPORT, the median over epochs after the first.
"""

from __future__ import annotations

import importlib
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from epoch_clock import Clock

BATCH, STEPS = 32, 60
keras = tf.keras


def network() -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def train(system: Any, epochs: int, callbacks: list[Any]) -> None:
    """Fits the network; a step has 32 samples of each process, and an epoch 60 steps."""
    random = np.random.default_rng(system.rank())
    images = random.random((BATCH * STEPS, 28, 28, 1), np.float32)
    labels = random.integers(0, 10, BATCH * STEPS)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH, drop_remainder=True)
    # The thread that tunes tf.data may hold up the end of an iterator until it wakes by itself:
    # a second, as long as an epoch here.
    options = tf.data.Options()
    options.autotune.enabled = False
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with system.scope():
        model = network()
        optimizer = system.optimizer(keras.optimizers.SGD(0.01))
        model.compile(optimizer, loss, jit_compile=False)
    data = data.cache().with_options(options)
    model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks)


def main() -> None:
    name, report, epochs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    system = importlib.import_module(f"adapters.{name}")
    clock = Clock()
    others = system.callbacks(report.parent) if hasattr(system, "callbacks") else []
    train(system, 1 + epochs, [clock, *others])
    if system.rank() == 0:
        report.write_text(f"step {statistics.median(clock.seconds[1:]) / STEPS}\n")


if __name__ == "__main__":
    main()
