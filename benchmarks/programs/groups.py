"""One round: how long two peers take for an all-reduce of all peers, and for one of a group.

kungfu-run -np 2|4 python groups.py REPORT BYTES...

Ranks 0 and 1 are the group. The averages follow each other in a loop of a `tf.function`. In a job
of two peers both kinds take turns; in one of four the other two wait. Rank 0 writes a line of JSON
to REPORT for each size: the bytes, and the median seconds by kind, "all" and "group".
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import kungfu_tf as kf

MEMBERS = (0, 1)
TURNS = 9
FEW = 2


def averages(count: int, group: kf.Group | None) -> Callable[[int], float]:
    """Seconds that so many averages of `count` float32 elements take."""

    @tf.function(autograph=False)
    def last_after(times: Any) -> Any:
        def again(i: Any, x: Any) -> Any:
            name = f"average/{count}/{group is not None}"
            return i + 1, kf.ops.all_reduce(x, op="mean", name=name, group=group)

        first = tf.fill([count], tf.cast(kf.rank(), tf.float32))
        return tf.while_loop(lambda i, _: i < times, again, [0, first], parallel_iterations=1)[1]

    def seconds(times: int) -> float:
        start = time.perf_counter()
        mean = last_after(tf.constant(times)).numpy()
        elapsed = time.perf_counter() - start
        if (mean != sum(MEMBERS) / len(MEMBERS)).any():
            sys.exit(f"rank {kf.rank()}: a wrong mean")
        return elapsed

    return seconds


def measured(size: int, groups: dict[str, kf.Group | None]) -> dict[str, float]:
    """Median seconds of an average of so many bytes, by kind, in turns."""
    many = FEW + min(max((200 << 20) // size, 8), 2000)
    kinds = {kind: averages(size // 4, group) for kind, group in groups.items()}
    for seconds in kinds.values():
        seconds(many)
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(TURNS):
        for kind in sorted(kinds, reverse=bool(turn % 2)):
            seconds = kinds[kind]
            taken[kind].append((seconds(many) - seconds(FEW)) / (many - FEW))
    return {kind: statistics.median(figures) for kind, figures in taken.items()}


def main() -> None:
    report, sizes = Path(sys.argv[1]), map(int, sys.argv[2:])
    group = kf.Group(MEMBERS)
    if group.included:
        groups = {"group": group} if kf.size() > len(MEMBERS) else {"all": None, "group": group}
        lines = [json.dumps({"bytes": size, **measured(size, groups)}) for size in sizes]
        if kf.is_root():
            report.write_text("\n".join(lines) + "\n")
    kf.barrier()


if __name__ == "__main__":
    main()
