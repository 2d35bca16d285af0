"""`elastic.fit` goes on while a newcomer boots and traces; prints "ok" on each.

The newcomer waits in the middle of its trace until the first peer has made some more steps. The
first peer waits for nobody. Of an epoch of 31 samples rank 1 has a batch less, as smaller ones are
dropped: what it has instead is no reason to trace anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from elastic_server import wait_until

import kungfu_tf as kf

STEPS = 3  # meanwhile
TOGETHER = 9  # of two peers: the rest of an epoch, and a whole one
SAMPLES, BATCH = 31, 4
TRACING, TRAINED = (Path(sys.argv[2]).with_name(name) for name in ("tracing", "trained"))
keras = tf.keras


traces = 0


def loss(y_true, y_pred):
    global traces
    traces += 1
    if kf.joining():
        TRACING.touch()
        wait_until(TRAINED.exists, "the others wait for the newcomer")
    return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)


class Steps(keras.callbacks.Callback):
    """Asks for another peer in the first step, and notes which steps were made while it traced."""

    def __init__(self):
        super().__init__()
        self.sizes, self.meanwhile, self.traces = [], [], None

    def on_train_batch_begin(self, batch, logs=None):
        if self.traces is None and not kf.is_root():
            self.traces = traces

    def on_train_batch_end(self, batch, logs=None):
        self.sizes.append(kf.size())
        self.traces = self.traces or traces
        if kf.is_root():
            if len(self.sizes) == 1:
                kf.propose_new_size(2)
            if TRACING.exists() and len(self.meanwhile) < STEPS:
                self.meanwhile.append(kf.size())
            if len(self.meanwhile) == STEPS:
                TRAINED.touch()
        self.model.stop_training = self.sizes.count(2) == TOGETHER


def main() -> None:
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.05)), loss)
    x = np.random.default_rng(1).normal(size=(SAMPLES, 3))
    samples = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
    dataset = kf.data.shard(samples).batch(BATCH, drop_remainder=True)
    steps = Steps()
    kf.elastic.fit(model, dataset, epochs=10**6, verbose=0, callbacks=[steps])
    if kf.is_root():
        assert steps.meanwhile == [1] * STEPS, steps.meanwhile
    assert steps.sizes.count(2) == TOGETHER, steps.sizes
    assert steps.traces == traces, (steps.traces, traces)
    assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
