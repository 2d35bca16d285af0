"""Files of TFRecords, of which each peer reads its part."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.checks import check_batch_size
from kungfu_tf.data.parquet import Files
from kungfu_tf.data.shard import shard

_HIDDEN = (".", "_")  # the first letters of what a folder holds beside its data


def tfrecords(
    files: Files,
    features: Mapping[str, Any],
    batch_size: int | None,
    *,
    compression: str = "",
) -> tf.data.Dataset:
    """Returns the records of files that belong to this peer, each a `tf.train.Example`.

    Of n records and `size` peers, rank r gets the records from n·r // size to n·(r + 1) // size, in
    the order of the files. So all records are dealt, and no peer has more than one more than
    another. `fit` and `data.even` handle that. Each peer counts the records of all files first,
    which reads them once. Later only the files with its records are read, from their beginnings.

    In a job of `kungfu-run -w` each peer reads all records, and `data.shard` deals them out.

    Args:
        files: A file, a folder, whose files are read in the order of their names, or a list of
            files. Names that begin with "." or "_" are left out of a folder.
        features: What to read of an example, by name, as for `tf.io.parse_example`:
            `tf.io.FixedLenFeature`, `tf.io.VarLenFeature`, `tf.io.RaggedFeature`.
        batch_size: The number of records of a batch; None: each element is one record, for
            `.shuffle(n).batch(b)`.
        compression: "", "GZIP" or "ZLIB".

    Returns:
        A dataset of dictionaries: a tensor for each feature, whose first dimension counts records.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there are fewer records than peers, or `batch_size` is not positive. If a
            file is damaged, or a record lacks a feature, TensorFlow raises an error of its own.

    Example:

    ```python
    features = {
        "rooms": tf.io.FixedLenFeature((1,), tf.int64),
        "price": tf.io.FixedLenFeature((), tf.float32),
    }
    rows = kf.data.tfrecords("houses/", features, 32)
    model.fit(rows.map(lambda row: (row["rooms"], row["price"])), epochs=3)
    ```
    """
    check_batch_size(batch_size, "data.tfrecords")
    paths = _paths(files)
    if not paths:
        raise FileNotFoundError(f"data.tfrecords: there is no file in {files}")
    counts = _counts(paths, compression)
    elastic = peer.launched() and peer.elastic()
    rank, size = (0, 1) if elastic else (peer.rank(), peer.size())
    if (count := sum(counts)) < size or count == 0:
        raise ValueError(f"data.tfrecords: {count} records are too few for {size} peers")
    records = _between(paths, counts, count * rank // size, count * (rank + 1) // size, compression)
    if elastic:
        records = shard(records)
    if batch_size is None:
        return records.map(lambda record: tf.io.parse_single_example(record, dict(features)))
    return records.batch(batch_size).map(lambda batch: tf.io.parse_example(batch, dict(features)))


def _paths(files: Files) -> list[str]:
    if not isinstance(files, (str, os.PathLike)):
        paths = [os.fspath(file) for file in files]
    elif tf.io.gfile.isdir(folder := os.fspath(files)):
        names = [name for name in tf.io.gfile.listdir(folder) if not name.startswith(_HIDDEN)]
        paths = [os.path.join(folder, name) for name in sorted(names)]
    else:
        paths = [folder]
    for path in paths:
        if not tf.io.gfile.exists(path):
            raise FileNotFoundError(f"data.tfrecords: there is no file {path}")
    return paths


def _counts(paths: Sequence[str], compression: str) -> list[int]:
    """How many records each file has."""

    def count(path: tf.Tensor) -> tf.Tensor:
        records = tf.data.TFRecordDataset(path, compression)
        return records.reduce(np.int64(0), lambda number, _: number + 1)

    counted = tf.data.Dataset.from_tensor_slices(paths).map(count, tf.data.AUTOTUNE)
    return [int(number) for number in counted.as_numpy_iterator()]


def _between(
    paths: Sequence[str], counts: Sequence[int], begin: int, end: int, compression: str
) -> tf.data.Dataset:
    """The records from `begin` to `end`, out of the files that have them."""
    starts = [sum(counts[:index]) for index in range(len(counts))]
    read = [
        index for index, start in enumerate(starts) if start < end and start + counts[index] > begin
    ]
    records = tf.data.TFRecordDataset([paths[index] for index in read], compression)
    records = records.skip(begin - starts[read[0]]).take(end - begin)
    return records.apply(tf.data.experimental.assert_cardinality(end - begin))
