"""Keras training that goes on while peers come and go.

    kungfu-run -w -np 1 -H 127.0.0.1:4 python examples/elastic_mnist.py

One peer trains at first; a schedule asks for more, and for less again. Newcomers start and get
ready while the others train. Each sample of an epoch is trained on once, by whomever.
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
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


class Sizes(keras.callbacks.Callback):
    """Prints how many peers there are, whenever that is another number."""

    size = 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if kf.size() != self.size and kf.is_root():
            print(f"peers: {kf.size()}", flush=True)
        self.size = kf.size()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="samples per step, of each peer")
    parser.add_argument("--schedule", default="1:200,4:2000,2:1", help="peers:steps, ...")
    options = parser.parse_args()
    keras.utils.set_random_seed(1)

    data = fashion_mnist.load()
    samples = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    # From where the training is, to the peers that there are, whenever that changes.
    dataset = kf.data.shard(samples, shuffle=10_000).batch(options.batch).prefetch(2)

    model = build_model(data.train_images.shape[1:])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(
        optimizer=kf.optimizers.SynchronousSGDOptimizer(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    kf.elastic.fit(
        model,
        dataset,
        epochs=options.epochs,
        verbose=2,
        callbacks=[kf.callbacks.ElasticCallback(options.schedule), Sizes()],
    )
    if kf.detached():  # others go on
        return
    if kf.is_root():
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
