"""How many operations `fit` has in a step, by each method that meets sometimes.

kungfu-run -np N python meetings.py REPORT

Rank 0 writes a line of JSON for each case to REPORT: `method`, `data`, `beside`, and `operations`,
those of a step. It is the difference of two calls of `fit` of which one has more steps, so what a
call agrees on once is in neither.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import optimizers
from kungfu_tf.native import libraries

BATCH, FEATURES, EVERY = 4, 3, 1000
FEW, MANY = 10, 30  # steps
METHODS = {
    "S-SGD": optimizers.SynchronousSGDOptimizer,
    f"LocalSGD {EVERY}": lambda inner: optimizers.LocalSGDOptimizer(inner, every=EVERY),
    f"DiLoCo {EVERY}": lambda inner: optimizers.DiLoCoOptimizer(inner, every=EVERY),
}
SPECS = (tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None, 1]))


def batches(steps: int | None) -> Iterator[Any]:
    """Without end, if there is no number of steps."""
    for _ in itertools.repeat(None) if steps is None else range(steps):
        yield np.ones([BATCH, FEATURES], np.float32), np.ones([BATCH, 1], np.float32)


def arrays(steps: int) -> dict[str, Any]:
    count = steps * BATCH
    x, y = np.ones([count, FEATURES], np.float32), np.ones([count, 1], np.float32)
    return {"x": x, "y": y, "batch_size": BATCH}


def unknown_length(steps: int) -> dict[str, Any]:
    return {"x": tf.data.Dataset.from_generator(lambda: batches(steps), output_signature=SPECS)}


DATA = {
    "arrays": arrays,
    "a generator": lambda steps: {"x": batches(steps)},
    "a generator without end": lambda steps: {"x": batches(None), "steps_per_epoch": steps},
    "a dataset of unknown length": unknown_length,
}
BESIDE = ("nothing", "a callback after each batch", "a loss scale")


def operations(method: str, data: str, beside: str) -> float:
    """Of a step."""
    optimizer = METHODS[method](keras.optimizers.SGD(0.01))
    if beside == "a loss scale":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    looks = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    callbacks = [looks] if beside == "a callback after each batch" else []
    done = []
    for steps in (FEW, FEW, MANY):  # the first agrees on more
        before = libraries.statistics()["operations"]
        model.fit(**DATA[data](steps), callbacks=callbacks, shuffle=False, verbose=0)
        done.append(libraries.statistics()["operations"] - before)
    return (done[2] - done[1]) / (MANY - FEW)


def main() -> None:
    report = Path(sys.argv[1])
    for method, data, beside in itertools.product(METHODS, DATA, BESIDE):
        line = {"method": method, "data": data, "beside": beside}
        line["operations"] = operations(method, data, beside)
        if kf.is_root():
            with report.open("a") as lines:
                print(json.dumps(line), file=lines)


if __name__ == "__main__":
    main()
