"""Columns of Arrow, as arrays of NumPy, without a copy where Arrow's memory has the right form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HINT = "cast it to numbers or text first"


def of(batch: pa.RecordBatch) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a batch.

    The first dimension of each array counts rows. Text and bytes are arrays of objects. Lists must
    have one length in all rows, and are a further dimension.

    Raises:
        TypeError: If a column is of a type that TensorFlow does not have.
        ValueError: If a column has nulls, or lists of different lengths.
    """
    names = batch.schema.names
    return {name: _array_of(name, column) for name, column in zip(names, batch, strict=True)}


def check_lengths(name: str, some: Sequence[int], others: Sequence[int]) -> None:
    """Checks that the lists of two rows of a column have the same lengths, at each depth.

    Raises:
        ValueError: If not.
    """
    for length, other in zip(some, others, strict=True):
        if length != other:
            raise ValueError(
                f"column {name!r} has lists of different lengths, {length} and {other}: "
                "fill them up to one"
            )


def _array_of(name: str, column: pa.Array) -> np.ndarray[Any, Any]:
    kind = column.type
    if column.null_count:
        raise ValueError(f"column {name!r} has nulls: fill them first")
    if isinstance(kind, pa.FixedShapeTensorType):
        return column.to_numpy_ndarray()
    if pa.types.is_dictionary(kind):
        return _array_of(name, column.dictionary_decode())
    if _is_list(kind):
        return _array_of_lists(name, column)
    if _is_text(kind) or _is_number(kind):
        array: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
        return array
    raise TypeError(f"column {name!r} is of the type {kind}, which no tensor has: {_HINT}")


def _array_of_lists(name: str, column: Any) -> np.ndarray[Any, Any]:
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    for length in lengths:
        check_lengths(name, lengths[:1], [length])
    values = _array_of(name, column.flatten())
    return values.reshape(len(column), *lengths, *values.shape[1:])


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return is_bytes or types.is_string(kind) or types.is_large_string(kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
