"""Optimizer state in shards is lost with a peer, so a job that survives one refuses it."""

from __future__ import annotations

import tensorflow as tf
import training
from harness import Skip
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 2, "flags": ["-on-failure", "survive"]}]


def case_the_first_step():
    keras = tf.keras
    if not training.is_keras_3():
        raise Skip("shards are for optimizers of Keras 3")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(kf.optimizers.ShardedOptimizer(keras.optimizers.Adam()), "mse")
    x = tf.ones([4, 2])
    text = raised_by(errors.FailedPreconditionError, lambda: model.fit(x, x[:, :1], verbose=0))
    assert "-on-failure survive" in text and "BackupAndRestore" in text, text
