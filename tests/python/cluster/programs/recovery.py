"""Two trainings, in each of which rank 1 is killed once. Prints where they are.

`fit` goes on with the epoch of its backup, `elastic.fit` with the sample.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf

RUNS = int(os.environ["KUNGFU_RESTARTS"])
SAMPLES, EPOCHS = 40, 3
keras = tf.keras
keras.backend.set_floatx("float64")


class Dies(keras.callbacks.Callback):
    def __init__(self, name: str, run: int, epoch: int, batch: int) -> None:
        super().__init__()
        self._name, self._where, self._epoch = name, (run, epoch, batch), 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        print(self._name, RUNS, "epoch", epoch, flush=True)
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if (RUNS, self._epoch, batch) == self._where and kf.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def model_of(optimizer: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def wrapped() -> Any:
    return model_of(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)))


def by_epochs() -> None:
    model = wrapped()
    x = np.random.default_rng(kf.rank()).normal(size=(16, 4))
    callbacks = [
        kf.callbacks.BroadcastGlobalVariablesCallback(),
        keras.callbacks.BackupAndRestore(sys.argv[1]),
        Dies("fit", 0, 2, 0),
    ]
    model.fit(x, x[:, :1], batch_size=8, epochs=4, verbose=0, callbacks=callbacks)
    print("done", int(model.optimizer.iterations.numpy()), flush=True)


def by_samples() -> None:
    """Killed in the fifth step of an epoch, with a backup of the third."""
    model, x = wrapped(), np.random.default_rng(7).normal(size=(SAMPLES, 4))
    backup = keras.callbacks.BackupAndRestore(sys.argv[1] + "-elastic", save_freq=2)
    callbacks = [backup, Dies("elastic", 1, 1, 4)]
    arguments = {"batch_size": 4, "epochs": EPOCHS, "verbose": 0, "callbacks": callbacks}
    kf.elastic.fit(model, x, y=x[:, :1], seed=3, **arguments)
    expected = model_of(keras.optimizers.SGD(0.1, momentum=0.9))
    for epoch in range(EPOCHS):
        order = np.random.default_rng((3, epoch)).permutation(SAMPLES)
        for samples in order.reshape(-1, 8):
            expected.train_on_batch(x[samples], x[samples, :1])
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    print("done", int(model.optimizer.iterations.numpy()), flush=True)


if __name__ == "__main__":
    by_epochs()
    by_samples()
