"""What it costs to measure the gradient noise scale in every step.

kungfu-run -np 2 python benchmarks/programs/monitoring.py

Two things, each with synchronous SGD alone and with the measurement, in turns: the exchange of
ResNet-50's gradients in a `tf.function` (161 float32 tensors, 97.5 MiB), and a step of ResNet-50 at
batch 8. Rank 0 prints medians and the medians of the turns' ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from gradient_sets import resnet50

import kungfu_tf as kf
from kungfu_tf.optimizers.buckets import Norms, mean_gradients

keras = tf.keras

Run = Callable[[], Any]
FEW, MANY, TURNS = 2, 8, 9
STEPS = 7
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


def show(what: str, turns: list[tuple[float, float]]) -> None:
    if kf.is_root():
        plain, monitored = (statistics.median(figures) for figures in zip(*turns, strict=True))
        ratio = statistics.median(b / a for a, b in turns)
        print(f"{what:<10} {plain * 1e3:8.1f} ms {monitored * 1e3:8.1f} ms  x {ratio:.3f}")


def main() -> None:
    exchanges = [exchange(is_monitored) for is_monitored in (False, True)]
    for run in exchanges:
        per_exchange(run)
    show("exchange", [tuple(map(per_exchange, exchanges)) for _ in range(TURNS)])
    optimizers = kf.optimizers
    steps = [
        training(optimizers.SynchronousSGDOptimizer),
        training(lambda o: optimizers.MonitorGradientNoiseScaleOptimizer(o, BATCH)),
    ]
    for run in steps:
        seconds(run)
    show("step", [tuple(map(seconds, steps)) for _ in range(STEPS)])


if __name__ == "__main__":
    main()
