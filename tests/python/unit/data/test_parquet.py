"""Rows of Parquet files, dealt to peers by their numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import kungfu_tf as kf

LENGTHS = (5, 1, 9)  # rows of three files, in row groups of two
ROWS = sum(LENGTHS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files whose column `row` counts, beside one of each type."""
    start = 0
    for index, length in enumerate(LENGTHS):
        rows = range(start, start + length)
        table = pa.table(
            {
                "row": pa.array(rows, pa.int64()),
                "share": pa.array([row / 2 for row in rows], pa.float32()),
                "even": pa.array([row % 2 == 0 for row in rows]),
                "text": pa.array([f"row {row}" for row in rows]),
                "pair": pa.array([[row, row + 1] for row in rows], pa.list_(pa.int32())),
                "square": pa.array(
                    [[[row, 1], [2, 3]] for row in rows], pa.list_(pa.list_(pa.float64(), 2), 2)
                ),
            }
        )
        pq.write_table(table, tmp_path / f"{index}.parquet", row_group_size=2)
        start += length
    return tmp_path


def rows_of(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch["row"].tolist() for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("size", [1, 2, 3, 4, ROWS])
@pytest.mark.parametrize("batch_size", [1, 2, 4, 100])
def test_each_row_is_read_by_one_peer(
    size: int, batch_size: int, folder: Path, peer: Callable[[int, int], None]
) -> None:
    read = []
    for rank in range(size):
        peer(rank, size)
        dataset = kf.data.parquet(folder, batch_size)
        begin, end = ROWS * rank // size, ROWS * (rank + 1) // size
        expected = [
            [*range(start, min(start + batch_size, end))] for start in range(begin, end, batch_size)
        ]
        assert rows_of(dataset) == expected
        assert rows_of(dataset) == expected, "in a second pass, too"
        assert dataset.cardinality() == len(expected)
        read += [row for batch in expected for row in batch]
    assert read == [*range(ROWS)]


def test_only_the_row_groups_of_a_peer_are_read(
    folder: Path, peer: Callable[[int, int], None]
) -> None:
    """The last peer of three goes on when the files before its own have lost their contents."""
    peer(2, 3)
    dataset = kf.data.parquet(folder, 4)
    for name in ("0.parquet", "1.parquet"):
        (folder / name).write_bytes(b"")
    assert rows_of(dataset) == [[10, 11, 12, 13], [14]]


def test_columns_are_tensors_of_their_types(folder: Path) -> None:
    dataset = kf.data.parquet(folder, 4)
    batch = next(dataset.skip(1).as_numpy_iterator())
    expected = {
        "row": np.array([4, 5, 6, 7]),
        "share": np.array([2, 2.5, 3, 3.5], np.float32),
        "even": np.array([True, False, True, False]),
        "text": np.array([b"row 4", b"row 5", b"row 6", b"row 7"], object),
        "pair": np.array([[4, 5], [5, 6], [6, 7], [7, 8]], np.int32),
        "square": np.array([[[row, 1], [2, 3]] for row in range(4, 8)], np.float64),
    }
    assert batch.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(batch[name], column, strict=True)
    assert dataset.element_spec["square"] == tf.TensorSpec((None, 2, 2), tf.float64)


def test_rows_may_come_one_by_one(folder: Path) -> None:
    dataset = kf.data.parquet(folder, None, columns=["pair", "row"])
    assert dataset.cardinality() == ROWS
    assert dataset.element_spec == {
        "pair": tf.TensorSpec((2,), tf.int32),
        "row": tf.TensorSpec((), tf.int64),
    }
    shuffled = dataset.shuffle(ROWS, seed=1).batch(4)
    read = [row for batch in rows_of(shuffled) for row in batch]
    assert read != [*range(ROWS)]
    assert sorted(read) == [*range(ROWS)]


def test_folders_give_columns_and_lists_an_order(folder: Path) -> None:
    for year in (2025, 2026):
        (folder / f"year={year}").mkdir()
        (folder / f"{2026 - year}.parquet").rename(folder / f"year={year}" / "rows.parquet")
    (folder / "2.parquet").unlink()
    by_name = kf.data.parquet(folder, 100, columns=["row", "year"])
    (batch,) = by_name.as_numpy_iterator()
    assert batch["row"].tolist() == [5, 0, 1, 2, 3, 4]
    assert batch["year"].tolist() == [2025] + 5 * [2026]
    files = [folder / "year=2026" / "rows.parquet", folder / "year=2025" / "rows.parquet"]
    assert rows_of(kf.data.parquet(files, 100)) == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        (pa.array([1, None]), ValueError, "column 'x' has nulls: fill them first"),
        (pa.array([[1], [1, 2]]), ValueError, "column 'x' has lists of different lengths, 1 and 2"),
        (pa.array([[1, None]]), ValueError, "column 'x' has nulls"),
        (pa.array([{"a": 1}]), TypeError, "column 'x' is of the type struct<a: int64>, which no"),
        (pa.array([1], pa.timestamp("us")), TypeError, r"type timestamp\[us\], which no tensor"),
    ],
)
def test_what_cannot_be_a_tensor_is_named(
    column: pa.Array, error: type[Exception], said: str
) -> None:
    from kungfu_tf.data import arrow_columns

    with pytest.raises(error, match=said):
        arrow_columns.of(pa.record_batch({"x": column}))


def test_what_a_later_row_shows_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1, 2], [1]]}), tmp_path / "file.parquet", row_group_size=1)
    dataset = kf.data.parquet(tmp_path / "file.parquet", 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'x'.*lengths, 2 and 1"):
        list(dataset)


def test_bad_arguments_are_named(folder: Path, peer: Callable[[int, int], None]) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        kf.data.parquet(folder / "none", 4)
    with pytest.raises(ValueError, match=r"has no column a, b, but row, share"):
        kf.data.parquet(folder, 4, columns=["b", "row", "a"])
    with pytest.raises(ValueError, match="batch_size is a positive number or None, not 0"):
        kf.data.parquet(folder, 0)
    peer(0, ROWS + 1)
    with pytest.raises(ValueError, match=f"{ROWS} rows are too few for {ROWS + 1} peers"):
        kf.data.parquet(folder, 4)
