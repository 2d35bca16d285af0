"""Pair averaging: each peer trains a model, averaged with one other peer's in each step.

    python examples/pair_averaging_mnist.py                    one process
    kungfu-run -np 4 python examples/pair_averaging_mnist.py   four

Nobody waits for a slow peer: all meet at the end of an epoch only. Each peer trains with batches of
its own, however many peers there are; the learning rate is that of one process.
"""

from __future__ import annotations

import argparse

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


def build_model(image_shape: tuple[int, ...]) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="samples per step of each peer")
    parser.add_argument("--steps", type=int, help="steps per epoch (default: the whole data set)")
    options = parser.parse_args()

    data = fashion_mnist.load()
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset)
    dataset = dataset.shuffle(len(data.train_images) // kf.size(), seed=kf.rank())
    dataset = dataset.batch(options.batch)
    if options.steps:
        dataset = dataset.take(options.steps)

    model = build_model(data.train_images.shape[1:])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(
        optimizer=kf.optimizers.PairAveragingOptimizer(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        dataset.prefetch(2),
        epochs=options.epochs,
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    # When `fit` has ended the model is the average of all peers'.
    if kf.is_root():
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
