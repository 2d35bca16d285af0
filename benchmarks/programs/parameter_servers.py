"""How many steps the quick peers make in a second where others are slow, and what a peer serves.

kungfu-run -np 4 python parameter_servers.py REPORT SLOWDOWN ROUNDS

To compute a gradient takes 20 ms, as on a device beside the processor, and SLOWDOWN times as long
in a slow step. Rank 0 writes lines of JSON to REPORT. They have the rates of all ranks, of each
method, case and round, and the bytes of Adam's slots: all, the most of a peer, and the bound.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from straggler import training_step

import kungfu_tf as kf

COMPUTING, STEPS, WARM_UP = 0.02, 60, 3
served = kf.optimizers.ParameterServerOptimizer
METHODS: dict[str, Callable[[Any], Any]] = {
    "S-SGD": kf.optimizers.SynchronousSGDOptimizer,
    **{f"staleness {n}": functools.partial(served, staleness=n) for n in (0, 1, 3, 10)},
    "no bound": served,
}
CASES: dict[str, Callable[[int], bool]] = {
    "all alike": lambda step: False,
    "one slow": lambda step: kf.rank() == kf.size() - 1,
    "each in turn slow": lambda step: kf.rank() == step % kf.size(),
}
keras = tf.keras


def rates(method: str, is_slow: Callable[[int], bool], slowdown: float) -> list[float]:
    """The steps per second of each rank."""
    optimizer = METHODS[method](keras.optimizers.SGD(0.01))
    step = training_step(optimizer)
    for _ in range(WARM_UP):
        step().numpy()
    kf.barrier()
    began = time.perf_counter()
    for number in range(STEPS):
        time.sleep(COMPUTING * (slowdown if is_slow(number) else 1))
        step().numpy()
    rate = np.float64(STEPS / (time.perf_counter() - began))
    told = kf.ops.all_gather(rate, name="rates").numpy().tolist()
    optimizer.kungfu_algorithm.finish()
    return list(told)


def slots() -> dict[str, float]:
    """The bytes of Adam's: of the plain optimizer, and the most of a peer."""
    optimizers = keras.optimizers.Adam(), served(keras.optimizers.Adam())
    for optimizer in optimizers:
        training_step(optimizer)
    everything, mine = (sum(v.numpy().nbytes for v in o.variables if v.ndim) for o in optimizers)
    largest = max(v.numpy().nbytes for v in optimizers[0].variables)
    most = int(kf.ops.all_reduce(np.int64(mine), op="max", name="slots"))
    bound = everything / kf.size() + 2 * largest  # Adam has two of each variable
    return {"all": everything, "most": most, "bound": bound}


def main() -> None:
    report, slowdown, rounds = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    lines: list[dict[str, Any]] = [{"section": "slots", **slots()}]
    for _ in range(rounds):
        for method in METHODS:
            for case, is_slow in CASES.items():
                found = rates(method, is_slow, slowdown)
                lines.append({"section": "rates", "method": method, "case": case, "rates": found})
    if kf.is_root():
        report.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
