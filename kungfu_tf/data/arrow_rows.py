"""Rows of Arrow, as a `tf.data` pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf.data import arrow_columns

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 4096  # rows that one call into Python brings; more would only need more memory


class Rows(NamedTuple):
    """This peer's rows of a table.

    Attributes:
        length: Their number.
        batches: Begins a pass through them. The batches may have any number of rows.
    """

    length: int
    batches: Callable[[], Iterator[pa.RecordBatch]]


def dataset_of(rows: Rows, batch_size: int | None) -> tf.data.Dataset:
    """The rows, as dictionaries of columns.

    Python is called once for thousands of rows. TensorFlow cuts what it brings into batches.

    Args:
        rows: The rows, at least one.
        batch_size: The number of rows of a batch; None: each row is an element.

    Raises:
        TypeError, ValueError: If a column cannot be a tensor.
    """
    first = next(batch for batch in rows.batches() if batch.num_rows)
    one = arrow_columns.of(first.slice(0, 1))
    signature = {
        name: tf.TensorSpec((None, *column.shape[1:]), _dtype(column))
        for name, column in one.items()
    }

    def chunks() -> Iterator[Mapping[str, np.ndarray[Any, Any]]]:
        for batch in rows.batches():
            for start in range(0, batch.num_rows, _AT_ONCE):
                columns = arrow_columns.of(batch.slice(start, _AT_ONCE))
                for name, column in columns.items():
                    arrow_columns.check_lengths(name, one[name].shape[1:], column.shape[1:])
                yield columns

    dataset = tf.data.Dataset.from_generator(chunks, output_signature=signature)
    if batch_size is None:
        return dataset.unbatch().apply(tf.data.experimental.assert_cardinality(rows.length))
    number = -(-rows.length // batch_size)
    return dataset.rebatch(batch_size).apply(tf.data.experimental.assert_cardinality(number))


def _dtype(column: np.ndarray[Any, Any]) -> tf.DType:
    return tf.string if column.dtype == object else tf.as_dtype(column.dtype)
