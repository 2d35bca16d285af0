"""Parquet files, of which each peer reads its part."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.checks import check_batch_size
from kungfu_tf.data.shard import shard
from kungfu_tf.engines import missing

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def parquet(
    files: Files, batch_size: int | None, *, columns: Sequence[str] | None = None
) -> tf.data.Dataset:
    """Returns the rows of Parquet files that belong to this peer, and reads no others.

    Of n rows and `size` peers, rank r gets the rows from n·r // size to n·(r + 1) // size, in the
    order of the files. So all rows are dealt, and no peer has more than one row more than another.
    `fit` and `data.even` handle that. Only the row groups with these rows are read, in each pass.

    In a job of `kungfu-run -w` each peer reads all rows, and `data.shard` deals them out.

    Args:
        files: A file, a folder of files, whose order is that of their names, or a list of files.
            Folders such as `year=2026` give a column.
        batch_size: The number of rows of a batch; None: each element is one row, for
            `.shuffle(n).batch(b)`.
        columns: The names of the columns to read. Default: all.

    Returns:
        A dataset of dictionaries: a tensor for each column, whose first dimension counts rows.
        Columns of numbers, truth values and text can be read, and lists of them that have one
        length.

    Raises:
        ImportError: If PyArrow is not installed.
        FileNotFoundError: If there is no such file.
        TypeError: If a column is of a type that no tensor has.
        ValueError: If there are fewer rows than peers, or `batch_size` is not positive, or a column
            has nulls or lists of different lengths. What only a later row shows is an
            `InvalidArgumentError` of TensorFlow.

    Example:

    ```python
    rows = kf.data.parquet("houses/", 32, columns=["features", "price"])
    model.fit(rows.map(lambda row: (row["features"], row["price"])), epochs=3)
    ```
    """
    missing.needed("pyarrow", "kungfu_tf.data.parquet")
    from kungfu_tf.data import arrow_rows, parquet_rows

    check_batch_size(batch_size, "data.parquet")
    table = parquet_rows.Table(files, columns)
    if peer.launched() and peer.elastic():
        rows = shard(arrow_rows.dataset_of(table.rows(0, 1), None))
        return rows if batch_size is None else rows.batch(batch_size)
    return arrow_rows.dataset_of(table.rows(peer.rank(), peer.size()), batch_size)
