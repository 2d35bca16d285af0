"""The rows that Ray or Spark has given to this peer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorflow as tf

from kungfu_tf import config, errors
from kungfu_tf.data.checks import check_batch_size
from kungfu_tf.engines import missing

if TYPE_CHECKING:
    import pyarrow as pa


def from_cluster(batch_size: int | None) -> tf.data.Dataset:
    """Returns this peer's rows of the data that `ray.run` or `spark.run` was given.

    They lie in a file of this host, which is mapped into memory. So there may be any number of
    passes, and each may be shuffled anew. Peers may have different numbers of rows, which `fit` and
    `data.even` handle.

    Args:
        batch_size: The number of rows of a batch; None: each element is one row, for
            `.shuffle(n).batch(b)`.

    Returns:
        A dataset of dictionaries: a tensor for each column, whose first dimension counts rows.

    Raises:
        FailedPreconditionError: If there are no such data.
        ImportError: If PyArrow is not installed.
        TypeError: If a column is of a type that no tensor has.
        ValueError: If this peer has no row, or `batch_size` is not positive, or a column has nulls
            or lists of different lengths. What only a later row shows is an `InvalidArgumentError`
            of TensorFlow.

    Example:

    ```python
    def train():
        rows = kf.data.from_cluster(32)
        model = make_model()
        return model.fit(rows.map(lambda row: (row["features"], row["price"]))).history

    histories = kf.spark.run(train, num_proc=4, data=frame)
    ```
    """
    file = config.ROWS.get()
    if not file:
        raise errors.FailedPreconditionError(
            "data.from_cluster: this process has no rows: call it in a function of ray.run or "
            "spark.run with data="
        )
    missing.needed("pyarrow", "kungfu_tf.data.from_cluster")
    from kungfu_tf.data import arrow_rows

    check_batch_size(batch_size, "data.from_cluster")
    rows = arrow_rows.Rows(_count(file), lambda: _batches(file))
    if not rows.length:
        raise ValueError("data.from_cluster: this peer has no row: there are fewer rows than peers")
    return arrow_rows.dataset_of(rows, batch_size)


def _count(file: str) -> int:
    return sum(batch.num_rows for batch in _batches(file))


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.memory_map(file) as mapped:
        reader = pa.ipc.open_file(mapped)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
