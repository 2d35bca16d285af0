"""A training loop of one's own, with GradientTape.

kungfu-run -np 4 python examples/gradient_tape_mnist.py
"""

from __future__ import annotations

import argparse

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all peers")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()

    data = fashion_mnist.load()
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset)
    dataset = dataset.shuffle(len(data.train_images) // kf.size(), seed=kf.rank()).repeat()
    dataset = dataset.batch(options.batch // kf.size()).take(options.steps)

    model = keras.Sequential(
        [
            keras.Input(data.train_images.shape[1:]),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    @kf.verify  # what `kungfu-run -verify` compares with one process
    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = loss_of(labels, model(images, training=True))
        # The mean over peers, so that all of them take the same step.
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    # All peers start from rank 0's model.
    kf.initializer.broadcast_variables([*model.variables, *as_list(optimizer.variables)])
    for step, (images, labels) in enumerate(dataset.prefetch(2)):
        loss = train_step(images, labels)
        if step % 100 == 0:
            mean = kf.ops.all_reduce(loss, op="mean", name="loss")
            if kf.is_root():
                print(f"step {step}: loss {float(mean):.4f}")

    if kf.is_root():
        model.compile(loss=loss_of, metrics=["accuracy"])
        loss, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
        print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


def as_list(variables: object) -> list:
    """An optimizer's `variables` are a property in Keras 3 and were a method in Keras 2."""
    return list(variables() if callable(variables) else variables)


if __name__ == "__main__":
    main()
