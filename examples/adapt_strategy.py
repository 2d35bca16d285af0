"""The peers measure how fast their gradients travel, and change the strategy where it is too slow.

    kungfu-run -np 4 python examples/adapt_strategy.py

Where other programs use the network, too, a strategy may be slower than it was. A peer sees that
the throughput has fallen; when most of them do, all go over to the next strategy at the same step.
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
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="samples per step of a peer")
    parser.add_argument("--interval", type=int, default=50, help="steps between two looks")
    parser.add_argument("--threshold", type=float, default=0.7, help="of the best throughput")
    parser.add_argument("--steps", type=int, help="steps per epoch (default: all the data)")
    options = parser.parse_args()

    data = fashion_mnist.load()
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset).shuffle(10_000, seed=kf.rank()).batch(options.batch)
    if options.steps:
        dataset = dataset.take(options.steps)

    kf.ops.set_strategy("RING")
    policy = kf.policy.InterferenceStrategyPolicy(
        ["RING", "BINARY_TREE", "CLIQUE"], interval=options.interval, threshold=options.threshold
    )
    model = build_model(data.train_images.shape[1:])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(
        optimizer=kf.optimizers.SynchronousSGDOptimizer(optimizer, monitor=True),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        dataset,
        epochs=options.epochs,
        verbose=2,
        callbacks=[kf.callbacks.PolicyCallback([policy])],
    )
    if kf.is_root():
        kf.print_strategy_stats()
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
