"""A program for `kungfu-run`: trains a model and saves it in every way, into the folder given."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
FEATURES = 6
BATCH = 4  # of one peer

keras.backend.set_floatx("float64")


def new_model(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [keras.layers.Input((FEATURES,)), keras.layers.Dense(4), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.05), keras.losses.MeanSquaredError())
    return model


def samples():
    x = np.random.default_rng(3).normal(size=(24, FEATURES))
    return x, np.sin(x.sum(axis=1, keepdims=True))


def fit(model, dataset, batch):
    model.fit(dataset.batch(batch, drop_remainder=True), epochs=2, verbose=0)


def values_of(model):
    """Its weights and the state of its optimizer, without the learning rate on Keras 2."""
    state = model.optimizer.variables
    variables = [*model.weights, *(state() if callable(state) else state)]
    return [generations.native(v).numpy() for v in variables]


def checkpoint_of(model):
    generations.build(model.optimizer, model.trainable_variables)
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer)


def main(folder):
    model = new_model(seed=kf.rank())
    SynchronousSGDOptimizer(model.optimizer)
    fit(model, kf.data.shard(tf.data.Dataset.from_tensor_slices(samples())), BATCH)
    if kf.rank() > 0:
        return
    model.save(folder / "model.keras")
    model.save(folder / "model.h5")
    model.save_weights(folder / "model.weights.h5")
    checkpoint_of(model).write(str(folder / "checkpoint"))
    model.export(str(folder / "exported"))
    for file in folder.rglob("*"):
        assert not file.is_file() or b"kungfu" not in file.read_bytes().lower(), file
    np.savez(folder / "values.npz", *values_of(model))
    np.savez(folder / "predicted.npz", model(np.ones((2, FEATURES))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
