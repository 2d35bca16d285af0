"""MNIST, and data sets in files of the same form."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from kungfu.tensorflow.v1.helpers.idx import Array, read_idx_file

__all__ = ["MnistDataSet", "MnistDataSets", "load_datasets", "load_mnist_data"]

_CLASSES = 10


class MnistDataSet(NamedTuple):
    """Images [n, 28, 28] and labels [n], or [n, 10] if they are one-hot."""

    images: Array
    labels: Array


class MnistDataSets(NamedTuple):
    """The data for training and for tests."""

    train: MnistDataSet
    test: MnistDataSet


def load_datasets(
    data_dir: str, normalize: bool = False, one_hot: bool = False, padded: bool = False
) -> MnistDataSets:
    """Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, and the same of t10k.

    Args:
        data_dir: The folder of the files, unpacked or with ".gz".
        normalize: Whether images are float32 between 0 and 1 instead of bytes.
        one_hot: Whether labels are rows of float32.
        padded: Whether images get a border of zeros, to 32 by 32 by 1.

    Raises:
        FileNotFoundError: If one is not there.
        ValueError: If one is something else.
    """
    return MnistDataSets(
        load_mnist_data(data_dir, "train", normalize, one_hot, padded),
        load_mnist_data(data_dir, "t10k", normalize, one_hot, padded),
    )


def load_mnist_data(
    data_dir: str, prefix: str, normalize: bool, one_hot: bool, padded: bool = False
) -> MnistDataSet:
    """Reads "train" or "t10k": see `load_datasets`.

    Raises:
        ValueError: If `prefix` is neither, or a file is something else.
    """
    if prefix not in ("train", "t10k"):
        raise ValueError(f"load_mnist_data: 'train' or 't10k', not {prefix!r}")
    images = read_idx_file(os.path.join(data_dir, f"{prefix}-images-idx3-ubyte"))
    labels = read_idx_file(os.path.join(data_dir, f"{prefix}-labels-idx1-ubyte"))
    return MnistDataSet(*prepared(images, labels, _CLASSES, normalize, one_hot, padded))


def prepared(
    images: Array, labels: Array, classes: int, normalize: bool, one_hot: bool, padded: bool = False
) -> tuple[Array, Array]:
    """Images and labels as they were asked for."""
    if padded:
        images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., np.newaxis]
    if normalize:
        images = images.astype(np.float32) / 255
    if one_hot:
        labels = np.eye(classes, dtype=np.float32)[labels]
    return images, labels
