"""Trains a small CNN on Fashion-MNIST with some learning rates, and says how good it has become.

kungfu-run -np 1 python convergence.py REPORT single BATCH SEED EPOCHS RATE...
kungfu-run -np 4 python convergence.py REPORT sync|sma|pair BATCH SEED EPOCHS RATE...

BATCH is of each process. Rank 0 adds a line to REPORT for each rate: the accuracy on the images
that nobody trains with, and that on the test images.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

TRAINED = 52 * 1024  # images: whole batches for everybody
STEPS = 13  # at a time
METHODS = {
    "single": lambda optimizer: optimizer,
    "sync": kf.optimizers.SynchronousSGDOptimizer,
    "sma": kf.optimizers.SynchronousAveragingOptimizer,
    "pair": kf.optimizers.PairAveragingOptimizer,
}
keras = tf.keras


def network(image_shape: tuple[int, ...]) -> keras.Model:
    """20,000 weights."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(image_shape),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 4, strides=3, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def start_again(model: keras.Model, weights: list[Any]) -> None:
    """As if it had never been trained; what TensorFlow has compiled for it stays."""
    model.set_weights(weights)
    for variable in model.optimizer.variables:
        variable.assign(tf.zeros_like(variable))


def falling(rate: float, epochs: int) -> keras.callbacks.Callback:
    """The learning rate of each epoch: half a wave, from `rate` down."""

    def of_epoch(epoch: int) -> float:
        return rate * (1 + math.cos(math.pi * epoch / epochs)) / 2

    return keras.callbacks.LearningRateScheduler(of_epoch)


def batches(data: fashion_mnist.Data, batch: int, seed: int) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset.take(TRAINED)).cache()
    dataset = dataset.shuffle(TRAINED // kf.size(), seed=100 * seed + kf.rank())
    return dataset.batch(batch).prefetch(2)


def accuracy(model: keras.Model, images: Any, labels: Any) -> float:
    answers = model.predict(images, batch_size=1000, verbose=0).argmax(axis=1)
    return float((answers == labels).mean())


def main() -> None:
    report, method, batch, seed, epochs = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    data = fashion_mnist.load()
    validation = (data.train_images[TRAINED:], data.train_labels[TRAINED:])
    test = (data.test_images, data.test_labels)
    keras.utils.set_random_seed(seed)
    model = network(data.train_images.shape[1:])
    weights = model.get_weights()
    optimizer = METHODS[method](keras.optimizers.SGD(momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, steps_per_execution=STEPS)
    for rate in map(float, sys.argv[6:]):
        start_again(model, weights)
        model.fit(
            batches(data, batch, seed),
            epochs=epochs,
            shuffle=False,
            verbose=0,
            callbacks=[falling(rate, epochs)],
        )
        if kf.is_root():
            with report.open("a") as lines:
                print(accuracy(model, *validation), accuracy(model, *test), file=lines)


if __name__ == "__main__":
    main()
