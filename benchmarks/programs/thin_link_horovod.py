"""The steps of thin_link.py with Horovod, without and with its compression.

thin_link_horovod.py REPORT ROUNDS SIZE SECTION...

Rank 0 writes lines like those of thin_link.py. Bytes are what the host's cable has sent, headers of
TCP included, for each of its peers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from adapters import horovod_started
from thin_link_steps import WAITS, shapes_of

SENT = Path("/sys/class/net/eth0/statistics/tx_bytes")
CODECS = {"Horovod": hvd.Compression.none, "Horovod, float16": hvd.Compression.fp16}


def of_all(number: float, op: Any) -> float:
    return float(hvd.allreduce(tf.constant(number, tf.float64), op=op, name="number"))


class Timed:
    """Means of gradients in each step, which an optimizer applies."""

    def __init__(self, title: str, size: str, waits: float) -> None:
        random = np.random.default_rng(hvd.rank())
        self.waits = waits
        self.seconds: list[float] = []
        self.sent: list[float] = []
        shapes = shapes_of(size)
        gradients = [tf.constant(random.normal(size=s), tf.float32) for s in shapes]
        variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        optimizer = tf.keras.optimizers.legacy.SGD(0.01)

        @tf.function
        def step() -> None:
            codec = CODECS[title]
            means = hvd.grouped_allreduce(
                gradients, op=hvd.Average, compression=codec, name=codec.__name__
            )
            optimizer.apply_gradients(zip(means, variables, strict=True))

        self._step = step
        self.round(2)
        self.seconds, self.sent = [], []

    def round(self, steps: int = 2) -> None:
        of_all(0.0, hvd.Max)  # they begin together
        before, began = int(SENT.read_text()), time.perf_counter()
        for _ in range(steps):
            time.sleep(self.waits)
            self._step()
        seconds = (time.perf_counter() - began) / steps
        sent = (int(SENT.read_text()) - before) / steps / hvd.local_size()
        self.seconds.append(of_all(seconds, hvd.Max))
        self.sent.append(of_all(sent, hvd.Average))


def lines(size: str, rounds: int, sections: list[str]) -> Iterator[dict[str, Any]]:
    for section in sections:
        timed = {title: Timed(title, size, WAITS[section]) for title in CODECS}
        for _ in range(rounds):
            for one in timed.values():
                one.round()
        for title, one in timed.items():
            figures = {"seconds": one.seconds, "sent": float(np.median(one.sent))}
            yield {"section": section, "method": title, **figures}


def main() -> None:
    report, rounds, size, sections = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    horovod_started.init()
    found = list(lines(size, rounds, sections))
    if hvd.rank() == 0:
        report.write_text("".join(json.dumps(line) + "\n" for line in found))


if __name__ == "__main__":
    main()
