"""What `make demo` runs, by one process and by four: trains, and writes down what happened.

It is keras_mnist.py with instruments: samples counted, time taken, weights compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import fashion_mnist
import numpy as np
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


class Instruments(keras.callbacks.Callback):
    """Per epoch: the seconds, and how often each sample was used, over all peers."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.uses = np.zeros(samples, np.int32)
        self.epochs: list[dict[str, float]] = []

    def record(self, index: tf.Tensor, image: tf.Tensor, label: tf.Tensor) -> tuple:
        """For `Dataset.map`: counts the samples of a batch."""
        tf.numpy_function(lambda used: np.add.at(self.uses, used, 1), [index], [])
        return image, label

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        seconds = time.perf_counter() - self.start
        uses = kf.ops.all_reduce(self.uses, name="uses").numpy()
        self.uses[:] = 0
        self.epochs.append(
            {
                "seconds": seconds,
                "samples": int(uses.sum()),
                "distinct": int((uses > 0).sum()),
            }
        )


def build_model(image_shape: tuple[int, ...], steps: int) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    schedule = keras.optimizers.schedules.CosineDecay(0.05, steps)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9)
    model.compile(
        kf.optimizers.SynchronousSGDOptimizer(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def digests_of_all_peers(model: keras.Model) -> list[str]:
    """A digest of the weights of each rank."""
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights()))
    mine = np.frombuffer(digest.digest()[:8], np.uint8)
    return [bytes(row).hex() for row in kf.ops.all_gather(mine, name="digest").numpy()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="samples per step, over all peers")
    parser.add_argument("--report", type=Path, required=True, help="where rank 0 writes to")
    options = parser.parse_args()

    # The peers of a host share its cores.
    cores = len(os.sched_getaffinity(0)) // kf.local_size()
    tf.config.threading.set_intra_op_parallelism_threads(max(1, cores))
    keras.utils.set_random_seed(1 + kf.rank())

    data = fashion_mnist.load()
    samples = len(data.train_images)
    instruments = Instruments(samples)
    dataset = tf.data.Dataset.from_tensor_slices(
        (np.arange(samples), data.train_images, data.train_labels)
    )
    dataset = kf.data.shard(dataset).shuffle(samples // kf.size(), seed=kf.rank())
    dataset = dataset.batch(options.batch // kf.size()).map(instruments.record).prefetch(2)

    model = build_model(data.train_images.shape[1:], options.epochs * samples // options.batch)
    model.fit(
        dataset,
        epochs=options.epochs,
        callbacks=[instruments],
        shuffle=False,  # the dataset does it
    )
    digests = digests_of_all_peers(model)
    if kf.is_root():
        _, accuracy = model.evaluate(data.test_images, data.test_labels, 500, verbose=0)
        report = {"accuracy": accuracy, "epochs": instruments.epochs, "digests": digests}
        options.report.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
