"""One process: in-place float32 sums by PyTorch's gloo.

gloo.py REPORT ARRAYS...

ARRAYS: BYTES, an array of so many, or NAME=BYTES,BYTES..., arrays that are summed one after the
other. Each is verified before it is timed. The first process writes "KEY SECONDS" to REPORT.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
from adapters import started
from torch import distributed


def add(arrays: list[torch.Tensor]) -> None:
    for array in arrays:
        distributed.all_reduce(array)


def median_seconds(arrays: list[torch.Tensor]) -> float:
    total = sum(array.nbytes for array in arrays)
    repetitions = min(max((400 << 20) // total, 11), 301)
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        add(arrays)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    report, *asked = sys.argv[1:]
    address, port = started.first()
    rank, size = started.rank(), started.size()
    torch.set_num_threads(1)
    where = f"tcp://{address}:{port}"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    lines = []
    for text in asked:
        key, _, sizes = text.rpartition("=")
        arrays = [torch.full([int(count) // 4], float(rank)) for count in sizes.split(",")]
        add(arrays)
        if not all(bool((array == size * (size - 1) / 2).all()) for array in arrays):
            sys.exit(f"gloo, rank {rank}: a wrong sum")
        for array in arrays:
            array.zero_()
        lines.append(f"{key or sizes} {median_seconds(arrays)}\n")
    if rank == 0:
        Path(report).write_text("".join(lines))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
