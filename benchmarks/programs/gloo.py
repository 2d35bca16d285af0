"""One process: in-place float32 sums by PyTorch's gloo.

gloo.py REPORT BYTES...

Each is verified before it is timed. The first process writes "BYTES SECONDS" to REPORT.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
from adapters import started
from torch import distributed


def median_seconds(values: torch.Tensor) -> float:
    repetitions = min(max((400 << 20) // values.nbytes, 11), 301)
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        distributed.all_reduce(values)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    report, *sizes = sys.argv[1:]
    address, port = started.first()
    rank, size = started.rank(), started.size()
    torch.set_num_threads(1)
    where = f"tcp://{address}:{port}"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    lines = []
    for count in sizes:
        values = torch.full([int(count) // 4], float(rank))
        distributed.all_reduce(values)
        if not bool((values == size * (size - 1) / 2).all()):
            sys.exit(f"gloo, rank {rank}: a wrong sum")
        lines.append(f"{count} {median_seconds(values.zero_())}\n")
    if rank == 0:
        Path(report).write_text("".join(lines))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
