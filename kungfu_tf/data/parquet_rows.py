"""A range of the rows of Parquet files, out of the row groups that hold them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import dataset as arrow_dataset

from kungfu_tf.data.arrow_rows import Rows
from kungfu_tf.data.parquet import Files


class Table:
    """The rows of files, in the order of the files.

    Args:
        files: As of `parquet`.
        columns: As of `parquet`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there is no such column.
    """

    def __init__(self, files: Files, columns: Sequence[str] | None) -> None:
        table = arrow_dataset.dataset(_named(files), format="parquet", partitioning="hive")
        self._schema = table.schema
        self._columns = None if columns is None else list(columns)
        if unknown := set(columns or ()) - set(table.schema.names):
            raise ValueError(
                f"data.parquet: {files} has no column {', '.join(sorted(unknown))}, but "
                f"{', '.join(table.schema.names)}"
            )
        self._groups = [
            group for file in table.get_fragments() for group in file.split_by_row_group()
        ]
        self._lengths = [group.row_groups[0].num_rows for group in self._groups]

    def rows(self, rank: int, size: int) -> Rows:
        """The rows of a rank.

        Raises:
            ValueError: If there are fewer rows than ranks.
        """
        count = sum(self._lengths)
        if count < size:
            raise ValueError(f"data.parquet: {count} rows are too few for {size} peers")
        begin, end = count * rank // size, count * (rank + 1) // size
        return Rows(end - begin, lambda: self._between(begin, end))

    def _between(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        position = 0
        for group, length in zip(self._groups, self._lengths, strict=True):
            if position < end and position + length > begin:
                yield from self._of_group(group, position, begin, end)
            position += length

    def _of_group(
        self, group: arrow_dataset.Fragment, position: int, begin: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        for batch in group.to_batches(schema=self._schema, columns=self._columns):
            first = max(begin - position, 0)
            last = min(end - position, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            position += batch.num_rows


def _named(files: Files) -> str | list[str]:
    if isinstance(files, (str, os.PathLike)):
        return os.fspath(files)
    return [os.fspath(file) for file in files]
