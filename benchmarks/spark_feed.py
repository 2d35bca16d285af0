"""How fast Spark brings rows into the files that peers read."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from systems import ROOT

PEERS = 2
SIDES = {"a DataFrame of Spark": False, "an RDD of rows": True}


def measured(path: str, rounds: int) -> dict[str, list[float]]:
    """Rows per second, from where they are computed to the files of peers; nothing without Spark.

    Args:
        path: Of a Parquet file, which is the source.
        rounds: How often it is measured.
    """
    if importlib.util.find_spec("pyspark") is None:
        return {}
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT))
    builder = SparkSession.builder.master(f"local[{PEERS}]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.read.parquet(path)
        rates: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(1 + rounds):
            for side, is_rdd in SIDES.items():
                rate = _rate_of(session, frame.rdd if is_rdd else frame)
                if number > 0:  # Java compiles in the first round
                    rates[side].append(rate)
        return rates
    finally:
        session.stop()


def _rate_of(session: Any, data: Any) -> float:
    from kungfu_tf.engines import spark_rows

    start = time.perf_counter()
    frame = spark_rows.frame_of(session, data)
    parts = frame.repartition(PEERS).mapInArrow(_writer(), "rows long", barrier=True)
    rows: int = sum(part.rows for part in parts.collect())
    return rows / (time.perf_counter() - start)


def _writer() -> Any:
    """It travels by value."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kungfu_tf.engines import row_file

        rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        with row_file.written(counted()):
            pass
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    return write
