"""A DataFrame of Spark, whose partitions go to the peers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from kungfu_tf.engines import row_file, spark_task
from kungfu_tf.engines.orders import Order

_CHILD = "child"  # the one column of what the tasks return


def frame_of(session: SparkSession, data: Any) -> DataFrame:
    """The DataFrame itself, or that of an RDD of rows.

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(data, RDD):
        return session.createDataFrame(data)
    if not isinstance(data, DataFrame):
        raise TypeError(f"spark.run: data is a DataFrame or an RDD of rows, not {type(data)}")
    return data


def tasks(frame: DataFrame, np: int, order: Order) -> RDD:
    """The tasks of a barrier stage, each with a part of the frame. An RDD of children.

    Spark may compute the frame in this call.
    """
    task = _task(order, to_arrow_schema(frame.schema))
    children = frame.repartition(np).mapInArrow(task, f"{_CHILD} binary", barrier=True)
    return children.rdd.map(lambda row: pickle.loads(row[0]))


def _task(
    order: Order, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with row_file.written(batches, schema) as rows:
            child = spark_task.ended(order, rows)
        yield pa.RecordBatch.from_pydict({_CHILD: [pickle.dumps(child)]})

    return task
