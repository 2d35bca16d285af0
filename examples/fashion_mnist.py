"""Fashion-MNIST for the examples, from wherever it can be had.

    python examples/fashion_mnist.py     fetches it and prints the directory

The first of these that works: $FASHION_MNIST_DIR; Keras' cache; Debian's package, installed; what
an earlier call has fetched; Keras' download; Debian's package, fetched without root; and last, so
that the examples run anywhere, scikit-learn's digits (1,797 images of 8 x 8). Each of them is, or
is made into, a directory with the four files in which the data set is published.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import debian
import numpy as np

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
INSTALLED = Path("/usr/share/datasets/fashion-mnist")
FETCHED = Path(__file__).resolve().parent.parent / ".data"


@dataclass(frozen=True)
class Data:
    """Images uint8 [n, height, width, 1], labels int64 [n], and the directory they are from."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    directory: Path


def load() -> Data:
    """The data set; what has to be fetched is fetched once, however many peers call together."""
    directory = fetch()
    images, labels, test_images, test_labels = (read(directory / name) for name in FILES)
    return Data(
        images[..., None],
        labels.astype(np.int64),
        test_images[..., None],
        test_labels.astype(np.int64),
        directory,
    )


def fetch() -> Path:
    """The directory of the four files."""
    named = os.environ.get("FASHION_MNIST_DIR")
    if named:
        return _complete(Path(named))
    keras_home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    for directory in (keras_home / "datasets" / "fashion-mnist", INSTALLED):
        if _is_complete(directory):
            return directory
    FETCHED.mkdir(exist_ok=True)
    with open(FETCHED / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in (_keras_download, _debian_package, _scikit_learn_digits):
            target = FETCHED / source.__name__.lstrip("_")
            if _is_complete(target) or _made(source, target):
                return target
    raise FileNotFoundError(
        "no source of Fashion-MNIST works; set FASHION_MNIST_DIR to its directory"
    )


def _is_complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in FILES)


def _complete(directory: Path) -> Path:
    missing = [name for name in FILES if not (directory / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{directory} has no {', '.join(missing)}")
    return directory


def _made(source, target: Path) -> bool:
    """Runs a source in a scratch directory; only what is complete becomes the target."""
    print(f"fashion_mnist: trying {target.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
        try:
            _complete(source(Path(scratch))).rename(target)
        except (OSError, ImportError) as error:
            print(f"fashion_mnist: {target.name}: {error}", file=sys.stderr)
            return False
    return True


def _keras_download(scratch: Path) -> Path:
    load_data = "import keras; keras.datasets.fashion_mnist.load_data()"
    debian.run(sys.executable, "-c", load_data, KERAS_HOME=str(scratch))
    return scratch / "datasets" / "fashion-mnist"


def _debian_package(scratch: Path) -> Path:
    debian.unpack("dataset-fashion-mnist", scratch)
    return scratch / "usr" / "share" / "datasets" / "fashion-mnist"


def _scikit_learn_digits(scratch: Path) -> Path:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images * (255 / 16)).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    test = np.arange(len(images)) % 7 == 0
    parts = (images[~test], labels[~test], images[test], labels[test])
    made = scratch / "digits"
    made.mkdir()
    for name, array in zip(FILES, parts, strict=True):
        write(made / name, array)
    return made


# An idx file: 0, 0, 8 (unsigned bytes), the number of axes; the axes, big-endian; the bytes.


def read(path: Path) -> np.ndarray:
    data = gzip.decompress(path.read_bytes())
    zeros, kind, axes = struct.unpack_from(">HBB", data)
    if (zeros, kind) != (0, 8):
        raise ValueError(f"{path} is not an idx file of bytes")
    shape = struct.unpack_from(f">{axes}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def write(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


if __name__ == "__main__":
    print(fetch())
