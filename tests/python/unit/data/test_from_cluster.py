"""The rows that an engine has given to a peer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import kungfu_tf as kf
from kungfu_tf.engines import row_file


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Ten rows in batches of four, four and two; and their file's descriptor."""
    batches = (
        pa.record_batch({"row": list(range(start, min(start + 4, 10)))}) for start in (0, 4, 8)
    )
    with row_file.written(batches) as descriptor:
        monkeypatch.setenv("KUNGFU_ROWS", f"/proc/self/fd/{descriptor}")
        yield descriptor


@pytest.mark.parametrize("batch_size", [3, 4, 100])
def test_rows_come_in_batches_in_each_pass(rows: int, batch_size: int) -> None:
    dataset = kf.data.from_cluster(batch_size)
    expected = [[*range(10)][start : start + batch_size] for start in range(0, 10, batch_size)]
    assert dataset.cardinality() == len(expected)
    for _ in range(2):
        assert [batch["row"].tolist() for batch in dataset.as_numpy_iterator()] == expected


def test_rows_come_one_by_one(rows: int) -> None:
    dataset = kf.data.from_cluster(None)
    assert dataset.cardinality() == 10
    assert [row["row"] for row in dataset.as_numpy_iterator()] == [*range(10)]


def test_the_file_has_no_name(rows: int) -> None:
    assert os.readlink(f"/proc/self/fd/{rows}").endswith(" (deleted)")


def test_arrays_of_any_rank_go_through(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(images)
    batch = pa.RecordBatch.from_arrays([tensors], names=["image"])
    with row_file.written(iter([batch])) as descriptor:
        monkeypatch.setenv("KUNGFU_ROWS", f"/proc/self/fd/{descriptor}")
        got = [batch["image"] for batch in kf.data.from_cluster(2).as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(got), images, strict=True)


def test_a_process_without_rows_hears_where_they_come_from() -> None:
    with pytest.raises(kf.errors.FailedPreconditionError, match=r"spark\.run with data="):
        kf.data.from_cluster(4)


def test_a_peer_without_a_row_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"row": pa.int64()})
    with row_file.written(iter([]), schema) as descriptor:
        monkeypatch.setenv("KUNGFU_ROWS", f"/proc/self/fd/{descriptor}")
        with pytest.raises(ValueError, match="this peer has no row"):
            kf.data.from_cluster(4)
