"""Keras `fit` on every peer.

    python examples/keras_mnist.py                    one process
    kungfu-run -np 4 python examples/keras_mnist.py   four, which train one model together

Both see the same number of samples and take the same number of steps: each peer trains with its
share of the global batch. The two lines that make it distributed are marked.
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
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all peers")
    parser.add_argument("--steps", type=int, help="steps per epoch (default: the whole data set)")
    options = parser.parse_args()

    data = fashion_mnist.load()
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset)  # 1: each peer reads its part
    dataset = dataset.shuffle(len(data.train_images) // kf.size(), seed=kf.rank())
    dataset = dataset.batch(options.batch // kf.size())
    if options.steps:
        dataset = dataset.take(options.steps)

    model = build_model(data.train_images.shape[1:])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(
        optimizer=kf.optimizers.SynchronousSGDOptimizer(optimizer),  # 2: the mean of the gradients
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        dataset.prefetch(2),
        epochs=options.epochs,
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    if kf.is_root():
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
