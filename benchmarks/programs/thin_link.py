"""What a step takes, and what it sends, by each method that talks less.

thin_link.py REPORT ROUNDS SIZE SECTION...

A line of JSON for each method goes to REPORT: `section`, `method`, `seconds` of a step, one figure
of each round, and `sent`, the bytes of a peer and step, the mean of all peers. The methods take
turns. Gradients are random numbers that are there already, so a step is the exchange and the
update. In some sections it is also a wait, as for an accelerator that computes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from thin_link_steps import WAITS, shapes_of

import kungfu_tf as kf
from kungfu_tf.compression import Cast, Int4, Int8, PowerSGD
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import (
    DecentralizedSGDOptimizer,
    DiLoCoOptimizer,
    PairAveragingOptimizer,
    SynchronousSGDOptimizer,
)

REST = 2.0  # seconds in which arrives what a method has begun, so that it is not in others' way


class Method(NamedTuple):
    """A way to train.

    Attributes:
        title: In tables.
        wrap: Makes an optimizer distributed.
        steps: In a round: whole intervals between meetings.
    """

    title: str
    wrap: Callable[[Any], Any]
    steps: int


def sync(codec: Any = None) -> Callable[[Any], Any]:
    return lambda optimizer: SynchronousSGDOptimizer(optimizer, compression=codec)


def diloco(every: int, **options: Any) -> Callable[[Any], Any]:
    return lambda optimizer: DiLoCoOptimizer(optimizer, every=every, **options)


def neighbors_ahead(optimizer: Any) -> Any:
    return DecentralizedSGDOptimizer(optimizer, style="awc", overlap=True)


ALONE = Method("no exchange", lambda optimizer: optimizer, 20)
PLAIN = Method("S-SGD", sync(), 2)
HALVES = Method("S-SGD, bfloat16", sync(Cast("bfloat16")), 2)
SOMETIMES = Method("DiLoCo 20", diloco(20), 20)
SECTIONS = {
    "exchange": [
        PLAIN,
        HALVES,
        Method("S-SGD, Int8", sync(Int8()), 2),
        Method("S-SGD, Int4", sync(Int4()), 2),
        Method("S-SGD, PowerSGD 4", sync(PowerSGD(rank=4)), 4),
        SOMETIMES,
        Method("DiLoCo 20, bfloat16", diloco(20, compression=Cast("bfloat16")), 20),
        Method("DiLoCo 100", diloco(100), 100),
        Method("one neighbour (base graph)", DecentralizedSGDOptimizer, 2),
        ALONE,
    ],
    "overlap": [ALONE, SOMETIMES, Method("DiLoCo 20, overlap 18", diloco(20, overlap=18), 20)],
    "scaling": [
        ALONE,
        PLAIN,
        HALVES,
        SOMETIMES,
        Method("one neighbour (base graph)", DecentralizedSGDOptimizer, 4),
        Method("one neighbour, overlapped", neighbors_ahead, 10),
        Method("one peer (pair averaging)", PairAveragingOptimizer, 10),
    ],
}


class Timed:
    """A method with variables of its own."""

    def __init__(self, section: str, method: Method, shapes: list[Any]) -> None:
        self.section = section
        self.method = method
        self.seconds: list[float] = []
        self.sent: list[float] = []
        random = np.random.default_rng(kf.rank())
        self._variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        self._gradients = [tf.constant(random.normal(size=s), tf.float32) for s in shapes]
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
            time.sleep(WAITS[self.section])
            self._step()
        seconds = time.perf_counter() - began
        if WAITS[self.section]:
            time.sleep(REST)
        sent = libraries.statistics()["bytes_sent"] - before
        slowest = kf.ops.all_reduce(np.float64(seconds), op="max", name="seconds")
        mean = kf.ops.all_reduce(np.float64(sent), op="mean", name="sent")
        self.seconds.append(float(slowest) / self.method.steps)
        self.sent.append(float(mean) / self.method.steps)


def main() -> None:
    report, rounds, size, sections = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    shapes = shapes_of(size)
    timed = [Timed(name, method, shapes) for name in sections for method in SECTIONS[name]]
    for number in range(rounds):
        for one in timed if number % 2 == 0 else timed[::-1]:
            one.round()
    if kf.is_root():
        lines = [
            {
                "section": one.section,
                "method": one.method.title,
                "seconds": one.seconds,
                "sent": float(np.median(one.sent)),
            }
            for one in timed
        ]
        report.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
