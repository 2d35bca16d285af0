"""What a Keras program has every day, on every peer.

    kungfu-run -np 4 python examples/keras_everyday.py

Callbacks that stop, save and log; mixed precision; a learning rate that warms up and decays;
validation; BatchNormalization over all peers; dropout. Files are written by rank 0, and all peers
see the metrics of all samples.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


def build_model(image_shape: tuple[int, ...]) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, strides=2, use_bias=False),
            kf.layers.SyncBatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),  # other dice on every peer
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, dtype="float32"),  # logits in full precision
        ]
    )


def build_optimizer(rate: float, steps: int) -> keras.optimizers.Optimizer:
    """Adam with decoupled decay; its rate warms up to `size` times `rate`, and decays."""
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    scaled = kf.callbacks.scale_learning_rate(schedule, warmup_steps=steps // 10)
    optimizer = keras.optimizers.AdamW(scaled, weight_decay=1e-4)
    return kf.optimizers.SynchronousSGDOptimizer(optimizer)


def build_callbacks(directory: Path) -> list[keras.callbacks.Callback]:
    callbacks = [
        keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(
            str(directory / "best.keras"), monitor="val_accuracy", save_best_only=True
        ),
        keras.callbacks.CSVLogger(str(directory / "log.csv")),
        keras.callbacks.TerminateOnNaN(),
    ]
    if importlib.util.find_spec("tensorboard"):  # a package of its own since TF 2.21
        callbacks.append(keras.callbacks.TensorBoard(str(directory / "tensorboard")))
    return callbacks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all peers")
    parser.add_argument("--steps", type=int, help="steps per epoch (default: the whole data set)")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate of one peer")
    parser.add_argument("--precision", default="mixed_bfloat16", help="a policy of Keras")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="for files (default: a temporary one)")
    options = parser.parse_args()
    keras.utils.set_random_seed(options.seed)
    keras.mixed_precision.set_global_policy(options.precision)

    data = fashion_mnist.load()
    count = len(data.train_images) * 9 // 10
    images = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    batch = options.batch // kf.size()
    train = kf.data.shard(images.take(count)).shuffle(count // kf.size()).batch(batch)
    train = train.take(options.steps) if options.steps else train
    validation = kf.data.shard(images.skip(count), remainder="keep").batch(500)

    model = build_model(data.train_images.shape[1:])
    model.compile(
        optimizer=build_optimizer(options.rate, options.epochs * len(train)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.directory or Path(scratch)
        model.fit(
            train.prefetch(2),
            epochs=options.epochs,
            validation_data=validation,
            callbacks=build_callbacks(directory),
            verbose=2,
        )
        if kf.is_root():
            best = keras.models.load_model(directory / "best.keras")
            loss, accuracy = best.evaluate(data.test_images, data.test_labels, 500, verbose=0)
            print(f"test: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
