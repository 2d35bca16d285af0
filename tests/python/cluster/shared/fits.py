"""A small model, its data on each peer, and what to ask of its training by `fit`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

tf.keras.backend.set_floatx("float64")
keras = tf.keras


def model_of(optimizer, metrics=(), seed=11):
    """Of a binary classification; the same on all peers if the seed is."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.layers.Input((training.FEATURES,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer, "binary_crossentropy", metrics=list(metrics))
    return model


def distributed(rate=0.1):
    return SynchronousSGDOptimizer(keras.optimizers.SGD(rate))


def samples(count=24):
    x, y = training.samples(count)
    return x, (y > 0).astype("float64")


def mine(data):
    return [part[kf.rank() :: kf.size()] for part in data]


def same_on_all(values) -> bool:
    return bool(kf.ops.consensus(np.asarray(values, np.float64)))


class Seen(keras.callbacks.Callback):
    """What the callbacks of this peer see, and where it trains."""

    def __init__(self):
        super().__init__()
        self.logs, self.batches = [], 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(
            {**logs, "rate": float(generations.native(self.model.optimizer.learning_rate))}
        )
