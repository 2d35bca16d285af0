"""One process of a system: averages of float32 tensors in a `tf.function`.

in_function.py SYSTEM call|loop|gradients REPORT KEYS...

call: each average of so many bytes (KEYS) is a call of the function. loop: they follow each other
in a loop within the function, so that the call does not count. gradients: all gradients of a model
(KEYS of gradient_sets.py), in such a loop where the system can do that. Each result is verified.
The first process writes "KEY SECONDS" to REPORT for each key, the median.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from gradient_sets import SETS

system = importlib.import_module(f"adapters.{sys.argv[1]}")

ROUNDS = 7
Shapes = list[list[int]]


def check(tensors: list[Any]) -> None:
    """The mean of values that are each process's rank; or they themselves, of one that is alone."""
    expected = (system.size() - 1) / 2 if system.averages else system.rank()
    if any(float(tf.reduce_max(tf.abs(tensor - expected))) != 0 for tensor in tensors):
        sys.exit(f"{sys.argv[1]}, rank {system.rank()}: a wrong mean")


def repetitions(shapes: Shapes) -> int:
    total = sum(4 * tf.TensorShape(shape).num_elements() for shape in shapes)
    return min(max((200 << 20) // total, 3), 301)


def per_call(shapes: Shapes) -> float:
    @tf.function(autograph=False)
    def means(values: list[Any]) -> list[Any]:
        return system.run(lambda: system.mean(values, f"call_{len(shapes)}_{shapes[0][0]}"))

    values = [tf.fill(shape, float(system.rank())) for shape in shapes]
    check(means(values))
    seconds = []
    for _ in range(ROUNDS * repetitions(shapes)):
        start = time.perf_counter()
        means(values)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def per_iteration(shapes: Shapes) -> float:
    """The mean of equal values is the value: it can be repeated without overflow."""

    @tf.function(autograph=False)
    def last_after(times: Any) -> list[Any]:
        def loop() -> list[Any]:
            def again(i: Any, *tensors: Any) -> list[Any]:
                return [i + 1, *system.mean(list(tensors), f"loop_{len(shapes)}_{shapes[0][0]}")]

            first = [tf.fill(shape, tf.constant(float(system.rank()))) for shape in shapes]
            _, *last = tf.while_loop(
                lambda i, *_: i < times, again, [0, *first], parallel_iterations=1
            )
            return last

        return system.run(loop)

    def seconds(times: int) -> float:
        start = time.perf_counter()
        last = last_after(tf.constant(times))
        elapsed = time.perf_counter() - start
        check(last)
        return elapsed

    few, many = 2, 2 + repetitions(shapes)
    for _ in range(1 + many // 15):  # small ones often, until threads have found their cores
        seconds(many)
    return statistics.median((seconds(many) - seconds(few)) / (many - few) for _ in range(ROUNDS))


def main() -> None:
    _, _, kind, report, *keys = sys.argv
    loops = kind == "loop" or (kind == "gradients" and system.may_loop)
    measure: Callable[[Shapes], float] = per_iteration if loops else per_call
    lines = []
    for key in keys:
        shapes = list(SETS[key]()) if kind == "gradients" else [[int(key) // 4]]
        lines.append(f"{key} {measure(shapes)}\n")
    if system.rank() == 0:
        Path(report).write_text("".join(lines))


if __name__ == "__main__":
    main()
