"""Trains a small CNN on Fashion-MNIST, and says how good it has become.

python convergence.py REPORT single BATCH RATE SEED EPOCHS
kungfu-run -np 4 python convergence.py REPORT sync|sma|pair BATCH RATE SEED EPOCHS

BATCH is of each process. Rank 0 writes the accuracy on 5,000 images that nobody trains with, and on
the test images, to REPORT.
"""

from __future__ import annotations

import sys
from pathlib import Path

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

VALIDATION = 5000
METHODS = {
    "single": lambda optimizer: optimizer,
    "sync": kf.optimizers.SynchronousSGDOptimizer,
    "sma": kf.optimizers.SynchronousAveragingOptimizer,
    "pair": kf.optimizers.PairAveragingOptimizer,
}
keras = tf.keras


def network(image_shape: tuple[int, ...]) -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(image_shape),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def main() -> None:
    report, method = Path(sys.argv[1]), sys.argv[2]
    batch, rate, seed, epochs = int(sys.argv[3]), float(sys.argv[4]), *map(int, sys.argv[5:7])
    keras.utils.set_random_seed(seed)
    data = fashion_mnist.load()
    images, labels = data.train_images, data.train_labels
    dataset = tf.data.Dataset.from_tensor_slices((images[VALIDATION:], labels[VALIDATION:]))
    dataset = kf.data.shard(dataset)
    dataset = dataset.shuffle(len(images) // kf.size(), seed=100 * seed + kf.rank())
    dataset = dataset.batch(batch, drop_remainder=True)
    model = network(images.shape[1:])
    optimizer = METHODS[method](keras.optimizers.SGD(rate, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(dataset.prefetch(2), epochs=epochs, shuffle=False, verbose=0)
    if not kf.is_root():
        return
    _, validation = model.evaluate(images[:VALIDATION], labels[:VALIDATION], 500, verbose=0)
    _, test = model.evaluate(data.test_images, data.test_labels, 500, verbose=0)
    report.write_text(f"{validation} {test}\n")


if __name__ == "__main__":
    main()
