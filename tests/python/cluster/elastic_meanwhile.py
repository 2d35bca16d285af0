"""`elastic.fit` goes on while a newcomer boots and traces; prints "ok" on each.

The newcomer waits in the middle of its trace until the first peer has made some more steps. The
first peer waits for nobody.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from elastic_server import wait_until

import kungfu_tf as kf

STEPS = 3
TRACING, TRAINED = (Path(sys.argv[2]).with_name(name) for name in ("tracing", "trained"))
keras = tf.keras


def loss(y_true, y_pred):
    if kf.joining():
        TRACING.touch()
        wait_until(TRAINED.exists, "the others wait for the newcomer")
    return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)


class Steps(keras.callbacks.Callback):
    """Asks for another peer in the first step, and notes which steps were made while it traced."""

    def __init__(self):
        super().__init__()
        self.sizes, self.meanwhile = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.sizes.append(kf.size())
        if kf.is_root():
            if len(self.sizes) == 1:
                kf.propose_new_size(2)
            if TRACING.exists() and len(self.meanwhile) < STEPS:
                self.meanwhile.append(kf.size())
            if len(self.meanwhile) == STEPS:
                TRAINED.touch()
        self.model.stop_training = self.sizes.count(2) == STEPS


def main() -> None:
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.05)), loss)
    x = np.random.default_rng(1).normal(size=(96, 3))
    steps = Steps()
    arguments = {"batch_size": 4, "epochs": 10**6, "verbose": 0, "callbacks": [steps]}
    kf.elastic.fit(model, x, y=x[:, :1], **arguments)
    if kf.is_root():
        assert steps.meanwhile == [1] * STEPS, steps.meanwhile
    assert steps.sizes.count(2) == STEPS, steps.sizes
    assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
