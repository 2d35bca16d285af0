"""What a step takes, and what it sends, by each method that talks less.

thin_link.py REPORT ROUNDS

A line of JSON for each method goes to REPORT: `section`, `method`, `seconds` of a step, one figure
of each round, and `sent`, the bytes of a peer and step, the mean of all peers. The methods take
turns. Gradients are random numbers that are there already, so a step is the exchange and the
update. In the second section it is also a wait, as for an accelerator that computes.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.compression import Cast, Int8, PowerSGD
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import (
    DecentralizedSGDOptimizer,
    DiLoCoOptimizer,
    SynchronousSGDOptimizer,
)

SHAPES = [(1024, 1024), (1024,)] * 3  # 12 MiB
WAIT = 0.1  # seconds of a step that computes


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        title: In tables.
        wrap: Makes an optimizer distributed.
        steps: In a round: whole intervals between meetings.
        waits: The seconds that each step computes.
    """

    title: str
    wrap: Callable[[Any], Any]
    steps: int
    waits: float = 0.0

    @property
    def section(self) -> str:
        return "exchange" if self.waits == 0 else "overlap"


def sync(codec: Any = None) -> Callable[[Any], Any]:
    return lambda optimizer: SynchronousSGDOptimizer(optimizer, compression=codec)


def diloco(every: int, **options: Any) -> Callable[[Any], Any]:
    return lambda optimizer: DiLoCoOptimizer(optimizer, every=every, **options)


METHODS = [
    Method("S-SGD", sync(), 2),
    Method("S-SGD, bfloat16", sync(Cast("bfloat16")), 2),
    Method("S-SGD, Int8", sync(Int8()), 2),
    Method("S-SGD, PowerSGD 4", sync(PowerSGD(rank=4)), 4),
    Method("DiLoCo 20", diloco(20), 20),
    Method("DiLoCo 20, bfloat16", diloco(20, compression=Cast("bfloat16")), 20),
    Method("DiLoCo 100", diloco(100), 100),
    Method("one neighbour (base graph)", DecentralizedSGDOptimizer, 2),
    Method("no exchange", lambda optimizer: optimizer, 20),
    Method("no exchange", lambda optimizer: optimizer, 20, WAIT),
    Method("DiLoCo 20", diloco(20), 20, WAIT),
    Method("DiLoCo 20, overlap 18", diloco(20, overlap=18), 20, WAIT),
]


class Timed:
    """A method with variables of its own."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.seconds: list[float] = []
        self.sent: list[float] = []
        random = np.random.default_rng(kf.rank())
        self._variables = [tf.Variable(tf.zeros(shape)) for shape in SHAPES]
        self._gradients = [tf.constant(random.normal(size=s), tf.float32) for s in SHAPES]
        self._optimizer = method.wrap(tf.keras.optimizers.SGD(0.01))
        self._step = tf.function(self._apply)
        self.round()  # traces, and comes to a meeting
        self.seconds, self.sent = [], []

    def _apply(self) -> None:
        pairs = zip(self._gradients, self._variables, strict=True)
        self._optimizer.apply_gradients(list(pairs))

    def round(self) -> None:
        kf.barrier()
        before, began = libraries.statistics()["bytes_sent"], time.perf_counter()
        for _ in range(self.method.steps):
            time.sleep(self.method.waits)
            self._step()
        seconds = time.perf_counter() - began
        sent = libraries.statistics()["bytes_sent"] - before
        slowest = kf.ops.all_reduce(np.float64(seconds), op="max", name="seconds")
        mean = kf.ops.all_reduce(np.float64(sent), op="mean", name="sent")
        self.seconds.append(float(slowest) / self.method.steps)
        self.sent.append(float(mean) / self.method.steps)


def main() -> None:
    report, rounds = Path(sys.argv[1]), int(sys.argv[2])
    timed = [Timed(method) for method in METHODS]
    for number in range(rounds):
        for one in timed if number % 2 == 0 else timed[::-1]:
            one.round()
    if kf.is_root():
        lines = [
            {
                "section": one.method.section,
                "method": one.method.title,
                "seconds": one.seconds,
                "sent": float(np.median(one.sent)),
            }
            for one in timed
        ]
        report.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
