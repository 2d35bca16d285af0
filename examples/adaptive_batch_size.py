"""The batch grows with the noise in the gradients, and the learning rate with the batch.

    kungfu-run -np 4 python examples/adaptive_batch_size.py

Training begins with small batches, whose steps are cheap. The gradient noise scale tells from which
size on a larger batch hardly makes better steps; it grows while the model learns, and the policy
follows it. One process cannot measure it: its batches stay as they are.
"""

from __future__ import annotations

import argparse

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


class Tell(kf.policy.BasePolicy):
    """A policy of one's own: rank 0 says when the batch has changed."""

    def before_train(self, training: kf.policy.Training) -> None:
        self._size = training.batch_size

    def after_step(self, training: kf.policy.Training) -> None:
        if training.batch_size != self._size and kf.is_root():
            print(
                f"step {training.step}: {training.batch_size} samples of each of {training.size} "
                f"peers, noise scale {training.noise_scale:.0f}, "
                f"learning rate {training.learning_rate:.3g}"
            )
        self._size = training.batch_size


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
    parser.add_argument("--batch", type=int, default=16, help="samples per step of a peer at first")
    parser.add_argument("--largest", type=int, default=512, help="the most of them")
    parser.add_argument("--interval", type=int, default=50, help="steps between two changes")
    parser.add_argument("--steps", type=int, help="first steps per epoch (default: all the data)")
    options = parser.parse_args()

    data = fashion_mnist.load()
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset)
    dataset = dataset.shuffle(len(data.train_images) // kf.size(), seed=kf.rank())
    if options.steps:
        dataset = dataset.take(options.steps * options.batch)

    model = build_model(data.train_images.shape[1:])
    optimizer = keras.optimizers.SGD(0.01 * kf.size(), momentum=0.9)
    model.compile(
        optimizer=kf.optimizers.MonitorGradientNoiseScaleOptimizer(optimizer, options.batch),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    policy = kf.policy.NoiseScaleBatchSizePolicy(
        options.largest, min_batch_size=options.batch, interval=options.interval
    )
    model.fit(
        dataset.batch(options.batch),
        epochs=options.epochs,
        shuffle=False,  # the dataset does it
        verbose=2,
        callbacks=[kf.callbacks.PolicyCallback([policy, Tell()])],
    )
    if kf.is_root():
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
