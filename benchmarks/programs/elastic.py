"""A training that goes through 1, 4, 2, 3 and 1 peers, again and again: what a change costs.

Usage: kungfu-run -w -np 1 -H 127.0.0.1:4 python elastic.py REPORT ROUNDS

Rank 0 writes a line of JSON for each change. Each sample must have been trained on once in each
epoch, and after each change it compares the weights and the optimizers of all peers bit by bit:
otherwise the program fails.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.replicas import first_step
from kungfu_tf.replicas.equality import check_equal

SAMPLES, FEATURES, BATCH, STEPS = 523, 256, 8, 12
SIZES = (4, 2, 3, 1)
WAIT = 300.0  # seconds for newcomers
keras = tf.keras


class Seen(keras.metrics.Metric):
    """How far each sample is from having been seen once in an epoch, by all peers."""

    def __init__(self) -> None:
        super().__init__(name="seen")
        self.counts = self.add_weight(name="counts", shape=(SAMPLES,), initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        numbers = tf.cast(y_true[:, 1], tf.int32)
        self.counts.assign_add(tf.reduce_sum(tf.one_hot(numbers, SAMPLES), axis=0))

    def reset_state(self) -> None:
        self.counts.assign(tf.zeros([SAMPLES]))

    def result(self) -> Any:
        return tf.reduce_max(tf.abs(self.counts - 1.0))


class Changes(keras.callbacks.Callback):
    """Asks for the next size every so many steps, waits until it is there, and measures."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.plan = list(SIZES) * rounds
        self.changes: list[dict[str, float]] = []
        self.seconds: list[float] = []  # of steps
        self.size, self.since, self.last = 0, 0, 0.0
        self.transfer = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = time.perf_counter()
        if kf.size() != self.size:
            if self.size:
                step = statistics.median(self.seconds)
                pause = now - self.last - step
                change = {"from": self.size, "to": kf.size(), "pause": pause, "step": step}
                self.changes.append({**change, "transfer": self.transfer})
            check_equal(first_step.equal_variables(self.model), "after a change")
            self.size, self.since = kf.size(), 0
        else:
            self.seconds = [*self.seconds[-50:], now - self.began]
        self.since += 1
        if self.since == STEPS and kf.is_root():
            self.go_on()
        self.last = time.perf_counter()

    def go_on(self) -> None:
        if not self.plan:
            self.model.stop_training = True
            return
        kf.propose_new_size(self.plan.pop(0))
        deadline = time.monotonic() + WAIT
        while not peer.outdated():
            if time.monotonic() > deadline:
                raise TimeoutError("the peers do not change")
            time.sleep(0.005)


def timed_transfer(changes: Changes) -> None:
    """Notes how long it takes until all have rank 0's model and optimizer."""
    make_equal = first_step.make_equal

    def timed(model: Any) -> None:
        began = time.perf_counter()
        make_equal(model)
        changes.transfer = time.perf_counter() - began

    first_step.make_equal = timed


def loss(y_true: Any, y_pred: Any) -> Any:
    return tf.reduce_mean(tf.square(y_true[:, :1] - y_pred), axis=-1)


def main() -> None:
    report, rounds = Path(sys.argv[1]), int(sys.argv[2])
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(1024, "relu"), keras.layers.Dense(1024, "relu")]
    model = keras.Sequential([keras.layers.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.01, momentum=0.9))
    model.compile(optimizer, loss, metrics=[Seen()])
    x = np.random.default_rng(1).normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = np.stack([np.sin(x.sum(axis=1)), np.arange(SAMPLES)], axis=1).astype(np.float32)
    changes = Changes(rounds)
    timed_transfer(changes)
    history = kf.elastic.fit(
        model, x, y=y, batch_size=BATCH, epochs=10**6, verbose=0, callbacks=[changes]
    )
    if not kf.is_root():
        return
    epochs = history.history["seen"][:-1]  # the last one was left in its middle
    assert not any(epochs), epochs
    lines = [json.dumps({"epochs": len(epochs), "bytes": 2 * 4 * model.count_params()})]
    report.write_text("\n".join([*lines, *map(json.dumps, changes.changes)]) + "\n")


if __name__ == "__main__":
    main()
