"""A dataset of Ray, whose rows are dealt to the peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import ray.data

_AT_ONCE = 4096  # rows of a batch


def shards_of(data: Any, size: int) -> list[ray.data.Dataset]:
    """The rows in order, in parts of which none has more than one row more than another.

    Raises:
        TypeError: If it is no dataset of Ray.
        ValueError: If there are fewer rows than parts.
    """
    if not isinstance(data, ray.data.Dataset):
        raise TypeError(f"ray.run: data is a ray.data.Dataset, not {type(data)}")
    here = data.materialize()  # before the peers get the CPUs that this needs
    count = here.count()
    if count < size:
        raise ValueError(f"ray.run: data has {count} rows, too few for {size} peers")
    bounds = [count * rank // size for rank in range(1, size)]
    return here.split_at_indices(bounds) if bounds else [here]


def batches_of(shard: ray.data.Dataset) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    for batch in shard.iter_batches(batch_size=_AT_ONCE, batch_format="numpy"):
        yield _batch_of(batch)


def _batch_of(columns: Mapping[str, np.ndarray[Any, Any]]) -> pa.RecordBatch:
    arrays = [_array_of(column) for column in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _array_of(column: np.ndarray[Any, Any]) -> pa.Array:
    if column.ndim < 2:
        return pa.array(column)
    return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(column))
