"""Rows per second of a dataset from Arrow or Parquet, beside a Python generator of rows.

Writes `results/rows.md`.

    python benchmarks/rows.py [--rounds 3] [--results DIR]

With PySpark also how fast a DataFrame and an RDD come to the peers.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import report
import spark_feed
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.engines import row_file

ROWS, FEATURES, BATCH, BLOCK = 200_000, 20, 256, 10_000


def from_arrow(table: pa.Table) -> tf.data.Dataset:
    """As the peers of Ray and Spark read."""
    return kf.data.from_cluster(BATCH)


def from_parquet(table: pa.Table) -> tf.data.Dataset:
    """As the peers read files."""
    return kf.data.parquet("rows.parquet", BATCH)


def from_generator(table: pa.Table) -> tf.data.Dataset:
    """A Python thread that yields single rows."""
    x, y = np.stack(table["x"].to_numpy()), table["y"].to_numpy()
    row = {"x": tf.TensorSpec((FEATURES,), tf.float32), "y": tf.TensorSpec((), tf.float32)}

    def rows() -> Iterator[dict[str, np.ndarray]]:
        for index in range(len(y)):
            yield {"x": x[index], "y": y[index]}

    return tf.data.Dataset.from_generator(rows, output_signature=row).batch(BATCH)


ARROW = "`data.from_cluster`"
WAYS: dict[str, Callable[[pa.Table], tf.data.Dataset]] = {
    ARROW: from_arrow,
    "`data.parquet`": from_parquet,
    "`from_generator` of rows": from_generator,
}


def make_table() -> pa.Table:
    """Lists of numbers, and a number."""
    x = np.random.default_rng(1).standard_normal((ROWS, FEATURES), np.float32)
    return pa.table({"x": list(x), "y": x.sum(axis=1)})


def rate_of(dataset: tf.data.Dataset) -> float:
    """Rows per second of a pass."""
    start = time.perf_counter()
    rows = sum(len(batch["y"]) for batch in dataset)
    assert rows == ROWS
    return rows / (time.perf_counter() - start)


def measured(rounds: int) -> dict[str, list[float]]:
    """The rates of each way, in turns."""
    table = make_table()
    pq.write_table(table, "rows.parquet", row_group_size=BLOCK)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with row_file.written(iter(table.to_batches(BLOCK))) as rows:
        os.environ["KUNGFU_ROWS"] = f"/proc/self/fd/{rows}"
        for _ in range(rounds):
            for way, dataset_of in WAYS.items():
                rates[way].append(rate_of(dataset_of(table)))
    return {**with_reading(spark_feed.measured("rows.parquet", rounds), rates[ARROW]), **rates}


def with_reading(brought: dict[str, list[float]], read: list[float]) -> dict[str, list[float]]:
    """The rates of rows that are first brought to the peers, and then read."""
    return {
        side: [1 / (1 / a + 1 / b) for a, b in zip(rates, read, strict=True)]
        for side, rates in brought.items()
    }


def lines_of(rates: dict[str, list[float]]) -> list[str]:
    """Markdown."""
    base = rates[[*WAYS][-1]]
    rows = []
    for way, own in rates.items():
        factor = statistics.median(a / b for a, b in zip(own, base, strict=True))
        rows.append(f"| {way} | {statistics.median(own):,.0f} | {factor:.1f} |")
    return [
        f"{ROWS:,} rows of {FEATURES} float32 and one, in batches of {BATCH}; medians of "
        f"{len(base)} rounds. Those of Spark are brought to the files of {spark_feed.PEERS} peers, "
        "and then read by `data.from_cluster` as by one.",
        "",
        "| | rows per second | × a generator |",
        "|---|---|---|",
        *rows,
    ]


def main() -> None:
    options = report.parser(__doc__, rounds=3).parse_args()
    results: Path = options.results.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rates = measured(options.rounds)
    report.write(results / "rows", "Rows of Arrow and Parquet", lines_of(rates))


if __name__ == "__main__":
    main()
