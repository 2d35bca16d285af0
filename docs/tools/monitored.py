"""The training whose progress and measurements the screenshots show."""

from __future__ import annotations

import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kungfu_tf as kf


def main() -> None:
    """Trains, with a folder for TensorBoard and a port for Prometheus as arguments."""
    folder, port = sys.argv[1:]
    keras.utils.set_random_seed(1)
    (x, y), _ = keras.datasets.fashion_mnist.load_data()
    dataset = kf.data.shard(tf.data.Dataset.from_tensor_slices((x, _partly_wrong(y))))
    dataset = dataset.shuffle(len(x), seed=kf.rank()).batch(32, drop_remainder=True).repeat(10)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(keras.optimizers.SGD(0.001), 32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    monitor = kf.callbacks.MonitorCallback(log_dir=folder, port=int(port), latencies=True)
    model.fit(dataset, epochs=5, verbose=2, callbacks=[monitor])


def _partly_wrong(labels: Any) -> Any:
    """Labels that no model learns: without them gradients would soon have no noise."""
    random = np.random.default_rng(1)
    return np.where(random.random(labels.shape) < 0.3, random.permutation(labels), labels)


if __name__ == "__main__":
    main()
