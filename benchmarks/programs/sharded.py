"""Steps with ShardedOptimizer and with SynchronousSGDOptimizer in turns, and the bytes of slots.

kungfu-run -np N python sharded.py REPORT ROUNDS

Rank 0 writes a line of JSON for each optimizer to REPORT: `optimizer`; `plain` and `sharded`, the
seconds of a step in each round; `all_slots`, `most_slots` and `bound`, bytes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.optimizers import ShardedOptimizer, SynchronousSGDOptimizer

WIDTH, LAYERS, BATCH, STEPS = 512, 12, 32, 8
OPTIMIZERS = {
    "Adam": lambda: keras.optimizers.Adam(1e-4),
    "LAMB": lambda: keras.optimizers.Lamb(1e-4),
}


class Timed:
    """A model that is trained."""

    def __init__(self, optimizer: Any) -> None:
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
        self.model = keras.Sequential([keras.Input((WIDTH,)), *layers])
        self.optimizer = optimizer
        self.seconds: list[float] = []
        self._x = tf.random.normal([BATCH, WIDTH])
        self._step = tf.function(self._train)
        self._step()

    def _train(self) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(self._x)))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    def round(self) -> None:
        kf.barrier()
        began = time.perf_counter()
        for _ in range(STEPS):
            self._step()
        seconds = np.float64((time.perf_counter() - began) / STEPS)
        self.seconds.append(float(kf.ops.all_reduce(seconds, op="max", name="seconds")))

    def slots(self) -> int:
        """The bytes of this peer's."""
        return sum(v.numpy().nbytes for v in self.optimizer.variables if v.ndim)


def main() -> None:
    report, rounds = Path(sys.argv[1]), int(sys.argv[2])
    lines = []
    for name, make in OPTIMIZERS.items():
        plain, sharded = Timed(SynchronousSGDOptimizer(make())), Timed(ShardedOptimizer(make()))
        for number in range(rounds):
            for one in (plain, sharded) if number % 2 == 0 else (sharded, plain):
                one.round()
        largest = max(v.numpy().nbytes for v in plain.model.trainable_variables)
        per_variable = plain.slots() / sum(
            v.numpy().nbytes for v in plain.model.trainable_variables
        )
        most = kf.ops.all_reduce(np.int64(sharded.slots()), op="max", name="slots")
        line = {
            "optimizer": name,
            "plain": plain.seconds,
            "sharded": sharded.seconds,
            "all_slots": plain.slots(),
            "most_slots": int(most),
            "bound": plain.slots() / kf.size() + per_variable * largest,
        }
        lines.append(json.dumps(line))
    if kf.is_root():
        report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
