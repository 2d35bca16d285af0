"""A training whose peers go over to another strategy every ten steps, through all of them.

kungfu-run -np 4 python strategies.py REPORT ROUNDS

The gradients are whole numbers and the rate is a power of two, so that no order of a sum changes
its bits. Rank 0 writes a line of JSON for each step to REPORT: strategy, seconds, whether all peers
have the same weights, and whether they are those of a training without changes.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.native import environment

STEPS_EACH, SHAPES, RATE = 10, [[1 << 20], [1000], [3]], 2.0**-4
ALL = list(environment.strategies()[1:])  # without AUTO


class Step(NamedTuple):
    """What one has taken, and what it has come to."""

    strategy: str
    seconds: float
    digest: bytes
    is_equal: bool  # between the peers


def training(strategies: list[str]) -> Iterator[Step]:
    """Ten steps with each."""
    weights = [tf.Variable(tf.zeros(shape)) for shape in SHAPES]

    @tf.function
    def step(number: Any) -> None:
        gradients = [
            tf.floor(16 * tf.random.stateless_uniform(w.shape, [kf.rank(), number + i]))
            for i, w in enumerate(weights)
        ]
        for weight, mean in zip(
            weights, kf.ops.group_all_reduce(gradients, op="mean"), strict=True
        ):
            weight.assign_sub(RATE * mean)

    for number in range(STEPS_EACH * len(strategies)):
        strategy = strategies[number // STEPS_EACH]
        if number % STEPS_EACH == 0:
            kf.ops.set_strategy(strategy)
        kf.barrier()
        began = time.perf_counter()
        step(tf.constant(number))
        seconds = time.perf_counter() - began
        digest = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in weights)).digest()
        yield Step(strategy, seconds, digest, bool(kf.ops.consensus(list(digest))))


def main() -> None:
    report, rounds = Path(sys.argv[1]), int(sys.argv[2])
    plain = list(training(["RING"] * len(ALL) * rounds))
    switched = list(training(ALL * rounds))
    lines = [
        json.dumps(
            {
                "strategy": step.strategy,
                "seconds": step.seconds,
                "equal": step.is_equal and before.is_equal,
                "as_without": step.digest == before.digest,
            }
        )
        for step, before in zip(switched, plain, strict=True)
    ]
    if kf.is_root():
        report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
