"""Trains models of four peers by methods that talk less, and says how good they become.

kungfu-run -np 4 python accuracy.py REPORT TASK STEPS METHOD:SEED:RATE...

Rank 0 adds a line of JSON to REPORT for each training. `validation` and `test` are the scores of
the model that one would save, and `sent` the bytes of a peer and step. `outers.py` has the names of
DiLoCo with other outer optimizers.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from accuracy_tasks import TASKS, Task, loss

import kungfu_tf as kf
from kungfu_tf import optimizers
from kungfu_tf.compression import Cast, ErrorFeedback, Int4, Int8, PowerSGD, TopK
from kungfu_tf.native import libraries


def sync(codec: Any = None) -> Any:
    return lambda inner: optimizers.SynchronousSGDOptimizer(inner, compression=codec)


def local(every: int) -> Any:
    return lambda inner: optimizers.LocalSGDOptimizer(inner, every=every)


def diloco(every: int, codec: Any = None, outer: Any = None) -> Any:
    return lambda inner: optimizers.DiLoCoOptimizer(
        inner, outer=outer, every=every, compression=codec
    )


def served(staleness: int | None) -> Any:
    return lambda inner: optimizers.ParameterServerOptimizer(inner, staleness=staleness)


ALONE = "alone"
METHODS = {
    ALONE: lambda inner: inner,
    "sync": sync(),
    "bfloat16": sync(Cast("bfloat16")),
    "int8": sync(Int8()),
    "int4": sync(Int4()),
    "int4-feedback": sync(ErrorFeedback(Int4())),
    "power": sync(PowerSGD(rank=4)),
    "top": sync(TopK(ratio=0.01)),
    "local10": local(10),
    "local50": local(50),
    "diloco10": diloco(10),
    "diloco20": diloco(20),
    "diloco50": diloco(50),
    "diloco50-int8": diloco(50, Int8()),
    "diloco50-int4": diloco(50, Int4()),
    "decentralized": optimizers.DecentralizedSGDOptimizer,
    "pair": optimizers.PairAveragingOptimizer,
    "sma": optimizers.SynchronousAveragingOptimizer,
    "served3": served(3),
    "served": served(None),
}


WITH_OUTER = re.compile(r"diloco(\d+)-([.\d]+)-([.\d]+)(n?)")


def wrapped(method: str, inner: Any) -> Any:
    """The optimizer of a method."""
    if found := WITH_OUTER.fullmatch(method):
        every, rate, momentum, nesterov = found.groups()
        outer = keras.optimizers.SGD(float(rate), float(momentum), nesterov=bool(nesterov))
        return diloco(int(every), outer=outer)(inner)
    return METHODS[method](inner)


def order(task: Task, steps: int, seed: int) -> Any:
    """The samples of each step: those of this peer, shuffled in each epoch."""
    random = np.random.default_rng([seed, kf.rank()])
    mine = task.trained[kf.rank() :: kf.size()]
    epochs = math.ceil(steps * task.batch / len(mine))
    shuffled = np.concatenate([random.permutation(mine) for _ in range(epochs)])
    return tf.constant(shuffled[: steps * task.batch].reshape(steps, task.batch), tf.int32)


def train(task: Task, model: Any, optimizer: Any, steps: int, seed: int, rate: float) -> None:
    """Its learning rate falls along a cosine."""
    variables = model.trainable_variables

    @tf.function
    def run(numbers: Any) -> None:
        for step in tf.range(steps):
            part = tf.cast(step, tf.float32) / steps
            optimizer.learning_rate.assign(rate * (1 + tf.cos(math.pi * part)) / 2)
            inputs, labels = task.samples(numbers[step])
            with tf.GradientTape() as tape:
                value = loss(model(inputs), labels)
            gradients = tape.gradient(value, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))

    run(order(task, steps, seed))


def scored(task: Task, model: keras.Model) -> list[float]:
    """On the samples that choose, and on those of the test; infinite where it has diverged."""
    scores = []
    for numbers in (task.validation, task.test):
        inputs, labels = task.samples(tf.constant(numbers, tf.int32))
        score = float(task.score(model(inputs), labels))
        scores.append(math.inf if math.isnan(score) else score)
    return scores


def trained(task: Task, method: str, steps: int, seed: int, rate: float) -> dict[str, float]:
    keras.utils.set_random_seed(seed)
    model = task.network()
    optimizer = wrapped(method, task.optimizer())
    optimizer.build(model.trainable_variables)
    kf.barrier()
    before = libraries.statistics()["bytes_sent"]
    if method == ALONE:
        train(task, model, optimizer, steps, seed, rate)
        scores = [float(kf.ops.all_reduce(s, op="mean")) for s in scored(task, model)]
    else:
        optimizer.kungfu_algorithm.build(model.trainable_variables)
        train(task, model, optimizer, steps, seed, rate)
        optimizer.kungfu_algorithm.finish()
    sent = (libraries.statistics()["bytes_sent"] - before) / steps
    kf.barrier()
    if method != ALONE:
        with kf.average_variables(model.trainable_variables):
            scores = scored(task, model)
    validation, test = scores
    sent = float(kf.ops.all_reduce(np.float64(sent), op="mean"))
    return {"seed": seed, "rate": rate, "validation": validation, "test": test, "sent": sent}


def main() -> None:
    report, task, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    made = TASKS[task]()
    for run in sys.argv[4:]:
        method, seed, rate = run.split(":")
        line = trained(made, method, steps, int(seed), float(rate))
        if kf.is_root():
            with report.open("a") as lines:
                print(json.dumps(line), file=lines)


if __name__ == "__main__":
    main()
