"""What it costs to measure the gradient noise scale in every step.

kungfu-run -np 2 python monitoring.py REPORT TURNS

Two things, each with synchronous SGD alone and with the measurement, in turns: the exchange of
ResNet-50's gradients in a `tf.function` (161 float32 tensors, 97.5 MiB), and a step of ResNet-50 at
batch 8. Rank 0 writes a line of JSON for each turn to REPORT: which of the two, and the seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf
from gradient_sets import resnet50

import kungfu_tf as kf
from kungfu_tf.exchange.buckets import Norms, mean_gradients

keras = tf.keras

Run = Callable[[], Any]
Measure = Callable[[], float]  # seconds
FEW, MANY = 2, 8
BATCH, IMAGE = 8, 224


def exchange(is_monitored: bool) -> Callable[[int], Any]:
    """Averages the gradients so many times."""
    specs = [tf.TensorSpec(shape) for shape in resnet50()]

    @tf.function(autograph=False)
    def run(times: Any) -> Any:
        first = [tf.fill(spec.shape, tf.cast(kf.rank(), tf.float32)) for spec in specs]

        def again(i: Any, total: Any, *gradients: Any) -> list[Any]:
            norms = Norms(tf.constant(True)) if is_monitored else None
            name = f"exchange/{is_monitored}"
            means = mean_gradients(gradients, specs, name=name, measured=norms)
            if norms:
                total = tf.add_n([total, *norms.totals()])
            with tf.control_dependencies([total, *means]):  # as an optimizer that needs them all
                return [i + 1, total, *map(tf.identity, means)]

        state = [0, tf.constant(0.0, tf.float64), *first]
        _, total, *last = tf.while_loop(
            lambda i, *_: i < times, again, state, parallel_iterations=1
        )
        return total, [tf.reduce_max(tensor) for tensor in last]

    return lambda times: run(tf.constant(times))


def training(wrap: Callable[[Any], Any]) -> Run:
    """A step of ResNet-50."""
    keras.utils.set_random_seed(1)
    model = keras.applications.ResNet50(weights=None, input_shape=(IMAGE, IMAGE, 3))
    optimizer = wrap(keras.optimizers.SGD(1e-3))
    variables = model.trainable_variables
    optimizer.build(variables)
    images = tf.random.stateless_uniform([BATCH, IMAGE, IMAGE, 3], [1, kf.rank()])
    labels = tf.range(BATCH)
    loss_of = keras.losses.SparseCategoricalCrossentropy()

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step().numpy()


def seconds(run: Run) -> float:
    kf.barrier()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def per_exchange(run: Callable[[int], Any]) -> float:
    """Without what it costs to call the function and to make the first tensors."""
    few, many = (seconds(lambda times=times: run(times)) for times in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def turns(what: str, plain: Measure, monitored: Measure, number: int) -> Iterator[str]:
    """Lines of JSON, after a turn that does not count."""
    for measure in (plain, monitored):
        measure()
    for _ in range(number):
        yield json.dumps({"what": what, "plain": plain(), "monitored": monitored()})


def main() -> None:
    report, number = Path(sys.argv[1]), int(sys.argv[2])
    exchanges = [partial(per_exchange, exchange(is_monitored)) for is_monitored in (False, True)]
    lines = list(turns("exchange", *exchanges, number))
    optimizers = kf.optimizers
    wraps = [
        optimizers.SynchronousSGDOptimizer,
        lambda optimizer: optimizers.MonitorGradientNoiseScaleOptimizer(optimizer, BATCH),
    ]
    steps = [partial(seconds, training(wrap)) for wrap in wraps]
    lines += turns("step", *steps, number)
    if kf.is_root():
        report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
