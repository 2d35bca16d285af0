"""CIFAR-10 and CIFAR-100, in the files for Python or in the binary ones that are published."""

from __future__ import annotations

import os
import pickle
from typing import Any, NamedTuple

import numpy as np
from kungfu.tensorflow.v1.helpers.idx import Array
from kungfu.tensorflow.v1.helpers.mnist import prepared

__all__ = ["Cifar10Loader", "Cifar100Loader", "CifarDataSet", "CifarDataSets"]

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_DEFAULT_DATA_DIR = os.path.expanduser("~/var/data/cifar")


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
        data_dir: The folder of cifar-10-batches-py, with data_batch_1 to 5 and test_batch; or that
            of data_batch_1.bin to 5 and test_batch.bin.
        normalize: Whether images are float32 between 0 and 1 instead of bytes.
        one_hot: Whether labels are rows of float32.
    """

    classes = 10
    label_bytes = 1  # before each image of a binary file; the last one counts
    folder = "cifar-10-batches-py"
    label_key = b"labels"
    files = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}

    def __init__(
        self, data_dir: str = _DEFAULT_DATA_DIR, normalize: bool = False, one_hot: bool = False
    ) -> None:
        self.data_dir = data_dir
        self.normalize = normalize
        self.one_hot = one_hot

    def load_train(self) -> CifarDataSet:
        """Reads the data for training: `load_datasets`."""
        return self._load("train")

    def load_test(self) -> CifarDataSet:
        """Reads the data for tests: `load_datasets`."""
        return self._load("test")

    def load_datasets(self) -> CifarDataSets:
        """Reads all.

        Raises:
            FileNotFoundError: If a file is not there.
            ValueError: If one is something else.
        """
        return CifarDataSets(self.load_train(), self.load_test())

    def _load(self, split: str) -> CifarDataSet:
        parts = [self._read(name) for name in self.files[split]]
        images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
        images = images.reshape(-1, *_SHAPE).transpose(0, 2, 3, 1)
        return CifarDataSet(*prepared(images, labels, self.classes, self.normalize, self.one_hot))

    def _read(self, name: str) -> tuple[Array, Array]:
        """The pixels and labels of a file."""
        binary = os.path.join(self.data_dir, f"{name}.bin")
        if os.path.exists(binary):
            return self._read_binary(binary)
        with open(os.path.join(self.data_dir, self.folder, name), "rb") as file:
            content = _Arrays(file, encoding="bytes").load()
        return content[b"data"], np.asarray(content[self.label_key])

    def _read_binary(self, file: str) -> tuple[Array, Array]:
        row, data = self.label_bytes + _PIXELS, np.fromfile(file, np.uint8)
        if len(data) % row:
            raise ValueError(f"{file} is {len(data)} bytes, and no multiple of {row}")
        rows = data.reshape(-1, row)
        return rows[:, self.label_bytes :], rows[:, self.label_bytes - 1]


class Cifar100Loader(Cifar10Loader):
    """Reads CIFAR-100, with its fine labels: cifar-100-python has train and test."""

    classes = 100
    label_bytes = 2
    folder = "cifar-100-python"
    label_key = b"fine_labels"
    files = {"train": ["train"], "test": ["test"]}


class _Arrays(pickle.Unpickler):
    """Reads dictionaries of arrays, and runs nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module, name)
        raise ValueError(f"a file of CIFAR has arrays only, not {module}.{name}")
