"""One of the peers is slow: how many steps each of the others takes in a second.

kungfu-run -np 4 python straggler.py REPORT sync|pair|served SLOWDOWN

A step takes at least 20 ms, as on a device that computes beside the processor; on the last peer
SLOWDOWN times as long. Rank 0 writes the rate of each rank, a line each, to REPORT.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

import kungfu_tf as kf

FEATURES, BATCH, STEPS, WARM_UP = 64, 32, 100, 5
SECONDS = 0.02  # of a step
keras = tf.keras
METHODS = {
    "sync": kf.optimizers.SynchronousSGDOptimizer,
    "pair": kf.optimizers.PairAveragingOptimizer,
    "served": kf.optimizers.ParameterServerOptimizer,
}


def training_step(optimizer: Any) -> Any:
    """Of a model of 0.3 MB."""
    layers = [keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu")]
    model = keras.Sequential([keras.layers.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    variables = model.trainable_variables
    optimizer.build(variables)
    kf.initializer.broadcast_variables(variables)
    x = tf.random.stateless_normal([BATCH, FEATURES], [1, kf.rank()])

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - 1))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def main() -> None:
    report, method, slowdown = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    optimizer = METHODS[method](keras.optimizers.SGD(0.01))
    step = training_step(optimizer)
    is_slow = kf.rank() == kf.size() - 1
    least = SECONDS * (slowdown if is_slow else 1)
    steps = round(STEPS / slowdown) if is_slow and method != "sync" else STEPS
    for _ in range(WARM_UP):
        step()
    kf.barrier()
    began = time.perf_counter()
    for i in range(steps):
        step().numpy()
        time.sleep(max(0.0, began + (i + 1) * least - time.perf_counter()))
    rates = kf.ops.all_gather(tf.constant(steps / (time.perf_counter() - began)))
    optimizer.kungfu_algorithm.finish()
    if kf.is_root():
        report.write_text("".join(f"{float(rate)}\n" for rate in rates))


if __name__ == "__main__":
    main()
