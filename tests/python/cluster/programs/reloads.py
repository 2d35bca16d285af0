"""A training that a schedule and somebody else give other numbers of peers, who all start anew.

Prints which numbers there were, in the last run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from elastic_server import wait_for_change

import kungfu_tf as kf

RUN = int(os.environ["KUNGFU_RESTARTS"])
keras = tf.keras


class Another(keras.callbacks.Callback):
    """Asks for 3 peers in the second epoch of the second run, and waits for who has asked."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (RUN, epoch) == (1, 1) and kf.is_root():
            kf.propose_new_size(3)
            wait_for_change()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if (RUN, batch) == (0, 10):
            wait_for_change()


def main() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), "mse")
    x = np.random.default_rng(7).normal(size=(240, 4))
    backup = keras.callbacks.BackupAndRestore(sys.argv[1])
    schedule = kf.callbacks.ElasticCallback("1:7,2:1000")
    callbacks = [backup, schedule, Another()]
    sizes = Path(sys.argv[1] + "-sizes")
    if kf.is_root():
        with sizes.open("a") as file:
            print(kf.size(), file=file)
    arguments = {"batch_size": 2, "epochs": 3, "verbose": 0, "callbacks": callbacks}
    kf.elastic.fit(model, x, y=x[:, :1], **arguments)
    if not kf.detached():
        print("ok", *sizes.read_text().split(), flush=True)


if __name__ == "__main__":
    main()
