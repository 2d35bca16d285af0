"""One peer: `fit` of a small model on handwritten digits, on a device.

gpu_fit.py REPORT CPU|GPU MODEL

The peers take the steps of one process: each trains with its part of every batch. Each writes its
weights to REPORT with its rank and ".npy" after it; the first one writes "step SECONDS" to REPORT,
the median over epochs after the first.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from epoch_clock import Clock
from sklearn.datasets import load_digits

import kungfu_tf as kf

keras = tf.keras
layers = keras.layers
BATCH, STEPS, EPOCHS = 64, 24, 5
MODELS = {
    "dense, SGD with momentum": (
        lambda: [layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(10)],
        lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    ),
    "convolutions, Adam": (
        lambda: [layers.Conv2D(16, 3, activation="relu"), layers.Flatten(), layers.Dense(10)],
        lambda: keras.optimizers.Adam(1e-3),
    ),
    "embedding, Adam": (
        lambda: [
            layers.Lambda(lambda images: tf.cast(images * 16, tf.int32)),
            layers.Flatten(),
            layers.Embedding(17, 8),
            layers.Flatten(),
            layers.Dense(10),
        ],
        lambda: keras.optimizers.Adam(1e-3),
    ),
    "LSTM, RMSprop": (
        lambda: [layers.Reshape((8, 8)), layers.LSTM(32), layers.Dense(10)],
        lambda: keras.optimizers.RMSprop(1e-3),
    ),
}


def data() -> Any:
    """Of the batches of one process, this peer's part."""
    digits = load_digits()
    images = (digits.images[: BATCH * STEPS, :, :, None] / 16).astype(np.float32)
    whole = tf.data.Dataset.from_tensor_slices((images, digits.target[: BATCH * STEPS]))
    return kf.data.shard(whole).batch(BATCH // kf.size())


def main() -> None:
    _, report, device, name = sys.argv
    if device == "CPU":
        tf.config.set_visible_devices([], "GPU")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(7)
    build, make_optimizer = MODELS[name]
    model = keras.Sequential([layers.Input((8, 8, 1)), *build()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(kf.optimizers.SynchronousSGDOptimizer(make_optimizer()), loss)
    clock = Clock()
    model.fit(data(), epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[clock])
    where = {variable.value.device.rpartition("/")[2] for variable in model.trainable_variables}
    if where != {f"device:{device}:0"}:
        sys.exit(f"the weights are on {where}")
    weights = [np.ravel(each) for each in model.get_weights()]
    np.save(f"{report}{kf.rank()}.npy", np.concatenate(weights))
    if kf.is_root():
        Path(report).write_text(f"step {statistics.median(clock.seconds[1:]) / STEPS}\n")


if __name__ == "__main__":
    main()
