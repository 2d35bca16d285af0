"""Writes the rows of this peer as a file of TFRecords."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer


def write_tfrecords(rows: tf.data.Dataset, folder: str | os.PathLike[str]) -> str:
    """Writes the rows of this peer into a file of a folder, for `data.tfrecords`.

    Each row becomes a `tf.train.Example`. Whole numbers and truth values are kept with 64 bits,
    other numbers with 32. Text and bytes stay as they are. A feature has no shape: the reader's
    `tf.io.FixedLenFeature` gives it back. The file has its name when it is whole.

    Peers write at the same time, each its own file. Call `kf.barrier()` before one reads what
    others have written.

    Args:
        rows: A dataset of dictionaries: each element is one row.
        folder: The folder. It is made if it is not there.

    Returns:
        The path of the file: `folder/00001-of-00004.tfrecord` of rank 1 of 4.

    Raises:
        TypeError: If the elements are not dictionaries, or hold what is no number, text or bytes.
        FileExistsError: If the folder has a file of another number of peers.

    Example:

    ```python
    kf.data.write_tfrecords(dataset.map(lambda x, y: {"x": x, "y": y}), "rows")
    ```
    """
    if not isinstance(rows.element_spec, Mapping):
        raise TypeError(f"data.write_tfrecords: rows are no dictionaries, but {rows.element_spec}")
    folder, rank, size = os.fspath(folder), peer.rank(), peer.size()
    ending = f"-of-{size:05d}.tfrecord"
    tf.io.gfile.makedirs(folder)
    for name in tf.io.gfile.listdir(folder):
        if name.endswith(".tfrecord") and not name.endswith(ending):
            raise FileExistsError(
                f"data.write_tfrecords: {folder} has {name}, which is not of {size} peers: write "
                "into another folder, or remove it"
            )
    name = f"{rank:05d}{ending}"
    unfinished, path = os.path.join(folder, f".{name}"), os.path.join(folder, name)
    with tf.io.TFRecordWriter(unfinished) as file:
        for row in rows.as_numpy_iterator():
            features = {column: _feature(column, value) for column, value in row.items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            file.write(example.SerializeToString())
    tf.io.gfile.rename(unfinished, path, overwrite=True)
    return path


def _feature(name: str, value: Any) -> tf.train.Feature:
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        whole = [int(one) for one in array.ravel().tolist()]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=whole))
    if array.dtype.kind in "OSU":
        listed = [tf.compat.as_bytes(one) for one in array.ravel().tolist()]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=listed))
    if array.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=array.ravel().tolist()))
    raise TypeError(f"data.write_tfrecords: column '{name}' is of the type {array.dtype}")
