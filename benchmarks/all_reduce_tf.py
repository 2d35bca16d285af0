"""One peer of benchmarks/all_reduce.py: float32 sums, each a call of a `tf.function`.

python benchmarks/all_reduce_tf.py REPORT BYTES...

Checks and times as all_reduce.cc does, and reports in the same form.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

import kungfu_tf as kf


@tf.function
def total(values: tf.Tensor) -> tf.Tensor:
    return kf.ops.all_reduce(values, name="benchmark")


def verify(count: int) -> None:
    pattern = np.arange(count, dtype=np.float32) % 11
    ranks = kf.size() * (kf.size() + 1) // 2
    result = total(tf.constant(pattern * (kf.rank() + 1))).numpy()
    if not np.array_equal(result, pattern * ranks):
        sys.exit(f"rank {kf.rank()}: a sum of {count} values is wrong")


def median_seconds(count: int) -> float:
    values = tf.zeros(count)
    repetitions = min(max((400 << 20) // (4 * count), 11), 501)
    seconds = []
    for repetition in range(-(repetitions // 10), repetitions):
        start = time.perf_counter()
        total(values)
        if repetition >= 0:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    report, sizes = Path(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    lines = []
    for size in sizes:
        verify(size // 4)
        lines.append(f"{size} {median_seconds(size // 4)}\n")
    if kf.is_root():
        report.write_text("".join(lines))


if __name__ == "__main__":
    main()
