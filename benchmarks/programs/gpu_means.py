"""One peer: averages of float32 tensors that lie on a device, each a call of a `tf.function`.

gpu_means.py REPORT CPU|GPU BYTES...

The first peer writes "BYTES SECONDS" to REPORT for each size, the median. "copy" in front of the
sizes times the way of the data instead: from the device to the host and back. Each result is
verified.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import kungfu_tf as kf


def through_the_host(tensor: Any) -> Any:
    """What an average cannot do without, and one pass over it, for which it has to go there."""
    with tf.device("/CPU:0"):
        return tf.abs(tensor)


def mean(tensor: Any) -> Any:
    return kf.ops.all_reduce(tensor, op="mean", name=f"mean_of_{tensor.shape[0]}")


def seconds(step: Callable[[Any], Any], device: str, count: int, expected: float) -> float:
    """The median, until an element of the result is on the host."""

    @tf.function(autograph=False, jit_compile=False)
    def once(tensor: Any) -> tuple[Any, Any]:
        with tf.device(device):
            result = tf.identity(step(tensor))
            return result, result[-1]

    with tf.device(device):
        tensor = tf.fill([count], float(kf.rank()))
    result, _ = once(tensor)
    if result.device != tensor.device or bool(tf.reduce_any(result != expected)):
        sys.exit(f"rank {kf.rank()}: wrong, or elsewhere: {result}")
    times = []
    for _ in range(min(max((256 << 20) // (4 * count), 7), 300)):
        start = time.perf_counter()
        once(tensor)[1].numpy()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    _, report, device, *sizes = sys.argv
    if device == "CPU":
        tf.config.set_visible_devices([], "GPU")
    copies = sizes[0] == "copy"
    lines = []
    for size in sizes[copies:]:
        if copies:
            step, expected = through_the_host, float(kf.rank())
        else:
            step, expected = mean, (kf.size() - 1) / 2
        lines.append(f"{size} {seconds(step, f'/{device}:0', int(size) // 4, expected)}\n")
    if kf.is_root():
        Path(report).write_text("".join(lines))


if __name__ == "__main__":
    main()
