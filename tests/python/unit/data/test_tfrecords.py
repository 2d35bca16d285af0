"""TFRecords, dealt to peers by their numbers alone, and files that peers write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf

LENGTHS = (5, 1, 0, 9)  # records of four files
RECORDS = sum(LENGTHS)
ROW = {"row": tf.io.FixedLenFeature((), tf.int64)}


def example(row: int) -> bytes:
    value = tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))
    return tf.train.Example(features=tf.train.Features(feature={"row": value})).SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files whose feature `row` counts, and two that are no data."""
    start = 0
    for index, length in enumerate(LENGTHS):
        with tf.io.TFRecordWriter(str(tmp_path / f"{index}.tfrecord")) as file:
            for row in range(start, start + length):
                file.write(example(row))
        start += length
    for name in ("_SUCCESS", ".half"):
        (tmp_path / name).write_bytes(b"no record")
    return tmp_path


def rows_of(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch["row"].tolist() for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [4, 100])
def test_each_record_is_read_by_one_peer(
    size: int, batch_size: int, folder: Path, peer: Callable[[int, int], None]
) -> None:
    for rank in range(size):
        peer(rank, size)
        dataset = kf.data.tfrecords(folder, ROW, batch_size)
        begin, end = RECORDS * rank // size, RECORDS * (rank + 1) // size
        expected = [
            [*range(start, min(start + batch_size, end))] for start in range(begin, end, batch_size)
        ]
        assert rows_of(dataset) == expected
        assert rows_of(dataset) == expected, "in a second pass, too"
        assert dataset.cardinality() == len(expected)


def test_only_the_files_of_a_peer_are_read(folder: Path, peer: Callable[[int, int], None]) -> None:
    """The last peer of three goes on when the files before its own have lost their contents."""
    peer(2, 3)
    dataset = kf.data.tfrecords(folder, ROW, 4)
    for name in ("0.tfrecord", "1.tfrecord"):
        (folder / name).write_bytes(b"")
    assert rows_of(dataset) == [[10, 11, 12, 13], [14]]


def test_records_may_come_one_by_one_from_a_list_of_files(folder: Path) -> None:
    files = [folder / "1.tfrecord", folder / "0.tfrecord"]
    dataset = kf.data.tfrecords(files, ROW, None)
    assert dataset.cardinality() == 6
    assert [row["row"] for row in dataset.as_numpy_iterator()] == [5, 0, 1, 2, 3, 4]


def test_compressed_files_are_read(tmp_path: Path, peer: Callable[[int, int], None]) -> None:
    path = str(tmp_path / "rows.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as file:
        for row in range(5):
            file.write(example(row))
    peer(1, 2)
    assert rows_of(kf.data.tfrecords(path, ROW, 9, compression="GZIP")) == [[2, 3, 4]]


def test_what_peers_write_is_read_again(tmp_path: Path, peer: Callable[[int, int], None]) -> None:
    folder = tmp_path / "new" / "rows"
    columns = {
        "whole": np.arange(7, dtype=np.int32) - 3,
        "truth": np.arange(7) % 2 == 0,
        "share": np.arange(14, dtype=np.float64).reshape(7, 2) / 4,
        "text": np.array([f"row {row} ä".encode() for row in range(7)]),
    }
    whole = tf.data.Dataset.from_tensor_slices(columns)
    for rank in range(3):
        peer(rank, 3)
        begin, end = 7 * rank // 3, 7 * (rank + 1) // 3
        path = kf.data.write_tfrecords(whole.skip(begin).take(end - begin), folder)
        assert path == str(folder / f"0000{rank}-of-00003.tfrecord")
    assert len(list(folder.iterdir())) == 3
    peer(0, 1)
    features = {
        "whole": tf.io.FixedLenFeature((), tf.int64),
        "truth": tf.io.FixedLenFeature((), tf.int64),
        "share": tf.io.FixedLenFeature((2,), tf.float32),
        "text": tf.io.FixedLenFeature((), tf.string),
    }
    (batch,) = kf.data.tfrecords(folder, features, 100).as_numpy_iterator()
    for name, column in columns.items():
        assert batch[name].tolist() == column.tolist()


def test_files_of_another_number_of_peers_are_not_mixed(
    tmp_path: Path, peer: Callable[[int, int], None]
) -> None:
    rows = tf.data.Dataset.range(2).map(lambda row: {"row": row})
    kf.data.write_tfrecords(rows, tmp_path)
    kf.data.write_tfrecords(rows, tmp_path)  # once more
    peer(1, 2)
    with pytest.raises(FileExistsError, match=r"00000-of-00001\.tfrecord, which is not of 2 peers"):
        kf.data.write_tfrecords(rows, tmp_path)


def test_bad_arguments_are_named(folder: Path, peer: Callable[[int, int], None]) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file \S*none"):
        kf.data.tfrecords(folder / "none", ROW, 4)
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no file in"):
        kf.data.tfrecords(folder / "empty", ROW, 4)
    (folder / "empty").rmdir()
    with pytest.raises(ValueError, match="batch_size is a positive number or None, not 0"):
        kf.data.tfrecords(folder, ROW, 0)
    with pytest.raises(ValueError, match="0 records are too few"):
        kf.data.tfrecords(folder / "2.tfrecord", ROW, 4)
    with pytest.raises(TypeError, match="rows are no dictionaries, but TensorSpec"):
        kf.data.write_tfrecords(tf.data.Dataset.range(2), folder)
    with pytest.raises(TypeError, match="column 'x' is of the type complex64"):
        kf.data.write_tfrecords(
            tf.data.Dataset.from_tensors({"x": tf.constant(1j, tf.complex64)}), folder / "_new"
        )
    peer(0, RECORDS + 1)
    with pytest.raises(ValueError, match=f"{RECORDS} records are too few for {RECORDS + 1} peers"):
        kf.data.tfrecords(folder, ROW, 4)
