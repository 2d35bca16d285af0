"""One peer: the gradients of ResNet-50 (161 float32 tensors, 97.5 MiB), summed in a `tf.function`.

kungfu-run -np 2 python benchmarks/host/resnet50_tf.py

One group operation, again and again in a loop within the function, so that calling the function and
making the first tensors do not count. The result is verified. Rank 0 prints the median of rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

import tensorflow as tf

import kungfu_tf as kf

ROUNDS, FEW, MANY = 9, 2, 12


def shapes() -> Iterator[list[int]]:
    """Kernels without bias, then scale and shift of each batch normalization; the classifier."""

    def convolution(size: int, inputs: int, outputs: int) -> Iterator[list[int]]:
        yield from ([size, size, inputs, outputs], [outputs], [outputs])

    yield from convolution(7, 3, 64)
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            if block == 0:
                yield from convolution(1, inputs, 4 * width)
            yield from convolution(1, inputs, width)
            yield from convolution(3, width, width)
            yield from convolution(1, width, 4 * width)
            inputs = 4 * width
    yield from ([2048, 1000], [1000])


@tf.function(autograph=False)
def last_after(times: tf.Tensor) -> list[tf.Tensor]:
    """The mean of equal values is the value: it can be repeated without overflow."""
    first = [tf.fill(shape, tf.cast(kf.rank(), tf.float32)) for shape in shapes()]

    def step(i: tf.Tensor, *gradients: tf.Tensor) -> list[tf.Tensor]:
        return [i + 1, *kf.ops.group_all_reduce(list(gradients), op="mean", name="gradients")]

    _, *last = tf.while_loop(lambda i, *_: i < times, step, [0, *first], parallel_iterations=1)
    return last


def seconds(times: int) -> float:
    start = time.perf_counter()
    last = last_after(tf.constant(times))
    elapsed = time.perf_counter() - start
    expected = (kf.size() - 1) / 2
    if any(float(tf.reduce_max(tf.abs(gradient - expected))) != 0 for gradient in last):
        sys.exit(f"rank {kf.rank()}: wrong")
    return elapsed


def main() -> None:
    assert len(list(shapes())) == 161
    seconds(FEW)
    figures = [(seconds(MANY) - seconds(FEW)) / (MANY - FEW) for _ in range(ROUNDS)]
    if kf.is_root():
        fastest, median = min(figures) * 1e3, statistics.median(figures) * 1e3
        print(f"{median:.1f} ms in the median, {fastest:.1f} ms at best")


if __name__ == "__main__":
    main()
