"""CIFAR-10 and CIFAR-100, in files of the format IDX or in the binary ones that are published."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from kungfu.tensorflow.v1.helpers.idx import Array, read_idx_file
from kungfu.tensorflow.v1.helpers.mnist import prepared

__all__ = ["Cifar10Loader", "Cifar100Loader", "CifarDataSet", "CifarDataSets"]

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


class CifarDataSet(NamedTuple):
    """Images [n, 32, 32, 3] and labels [n], or [n, classes] if they are one-hot."""

    images: Array
    labels: Array


class CifarDataSets(NamedTuple):
    """The data for training and for tests."""

    train: CifarDataSet
    test: CifarDataSet


class Cifar10Loader:
    """Reads CIFAR-10.

    Args:
        data_dir: The folder of train-images-idx4-ubyte, train-labels-idx1-ubyte and the same of
            test, unpacked or with ".gz"; or of data_batch_1.bin to 5 and test_batch.bin.
        normalize: Whether images are float32 between 0 and 1 instead of bytes.
        one_hot: Whether labels are rows of float32.
    """

    classes = 10
    label_bytes = 1  # before each image; the last one counts
    files = {
        "train": [f"data_batch_{i}.bin" for i in range(1, 6)],
        "test": ["test_batch.bin"],
    }

    def __init__(self, data_dir: str, normalize: bool = True, one_hot: bool = True) -> None:
        self.data_dir = data_dir
        self.normalize = normalize
        self.one_hot = one_hot

    def load_datasets(self) -> CifarDataSets:
        """Reads all.

        Raises:
            FileNotFoundError: If a file is not there.
            ValueError: If one is something else.
        """
        return CifarDataSets(self._load("train"), self._load("test"))

    def _load(self, split: str) -> CifarDataSet:
        published = [os.path.join(self.data_dir, name) for name in self.files[split]]
        if os.path.exists(published[0]):
            images, labels = self._read(published)
        else:
            images = read_idx_file(os.path.join(self.data_dir, f"{split}-images-idx4-ubyte"))
            labels = read_idx_file(os.path.join(self.data_dir, f"{split}-labels-idx1-ubyte"))
        both = prepared(images, labels, self.classes, self.normalize, self.one_hot)
        return CifarDataSet(*both)

    def _read(self, files: list[str]) -> tuple[Array, Array]:
        row = self.label_bytes + _PIXELS
        data = np.concatenate([np.fromfile(file, np.uint8) for file in files])
        if len(data) % row:
            raise ValueError(f"{files} are {len(data)} bytes, and no multiple of {row}")
        rows = data.reshape(-1, row)
        images = rows[:, self.label_bytes :].reshape(-1, *_SHAPE).transpose(0, 2, 3, 1)
        return images, rows[:, self.label_bytes - 1]


class Cifar100Loader(Cifar10Loader):
    """Reads CIFAR-100, with its fine labels; its published files are train.bin and test.bin."""

    classes = 100
    label_bytes = 2
    files = {"train": ["train.bin"], "test": ["test.bin"]}
