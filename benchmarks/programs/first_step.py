"""The first step of a job, and what its processes hold by then.

LAUNCHER... python first_step.py REPORT
python first_step.py REPORT ray|spark

With a name it calls that engine for four peers. All processes of the job, those of the launcher
too, are known by the variable BENCHMARK_MARK. Rank 0 writes a line of JSON to REPORT. It has when
the session of an engine was up and when the step ended, by time.time(). And it has bytes, as
proportional set sizes: the mean of a peer's process, and the sum of all processes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PEERS = 4
MARK = "BENCHMARK_MARK"


def proportional_set_size(process: Path) -> int:
    """In bytes. What several processes share counts for each in part."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def of_all(mark: str) -> Iterator[int]:
    variable = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes().split(b"\0"):
                yield proportional_set_size(process)
        except OSError:  # it has ended
            pass


def first_step(report: str, mark: str, session: float) -> None:
    import keras
    import numpy as np

    import kungfu_tf as kf

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, "relu")])
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.Adam()), "mse")
    samples = np.full((32, 64), kf.rank(), np.float32)
    model.fit(samples, samples, batch_size=32, verbose=0)
    ended = time.time()
    mine = np.float64(proportional_set_size(Path("/proc/self")))
    peer = float(kf.ops.all_reduce(mine, op="mean", name="memory"))
    if kf.rank() == 0:
        line = {"session": session, "ended": ended, "peer": peer, "all": sum(of_all(mark))}
        Path(report).write_text(json.dumps(line))
    kf.barrier()


def on_ray(report: str, mark: str) -> None:
    import ray

    import kungfu_tf as kf

    ray.init(num_cpus=PEERS, include_dashboard=False)
    kf.ray.run(first_step, PEERS, args=[report, mark, time.time()])
    ray.shutdown()


def on_spark(report: str, mark: str) -> None:
    from pyspark.sql import SparkSession

    import kungfu_tf as kf

    session = SparkSession.builder.master(f"local[{PEERS}]").getOrCreate()
    kf.spark.run(first_step, num_proc=PEERS, args=[report, mark, time.time()])
    session.stop()


def main() -> None:
    report, mark = sys.argv[1], os.environ[MARK]
    if len(sys.argv) == 2:
        first_step(report, mark, 0.0)
    else:
        {"ray": on_ray, "spark": on_spark}[sys.argv[2]](report, mark)


if __name__ == "__main__":
    main()
