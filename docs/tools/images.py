"""A small set of images in the form of Fashion-MNIST, for programs that download it."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

_PIXELS = 28
_CLASSES = 10
_COUNTS = {"train": 2048, "t10k": 512}
_NOISE = 96  # of 255


def write(folder: Path) -> None:
    """Writes the four files, where Keras looks for what it has downloaded before."""
    folder.mkdir(parents=True)
    for name, count in _COUNTS.items():
        source = random.Random(name)
        labels = bytes(source.choices(range(_CLASSES), k=count))
        pixels = b"".join(_image(label, source) for label in labels)
        _write(folder / f"{name}-labels-idx1-ubyte.gz", (count,), labels)
        _write(folder / f"{name}-images-idx3-ubyte.gz", (count, _PIXELS, _PIXELS), pixels)


def _image(label: int, source: random.Random) -> bytes:
    """Noise with a bright bar; where that stands tells the class."""
    noise = source.randbytes(_PIXELS * _PIXELS)
    bars = range(2 * label + 4, 2 * label + 6)
    return bytes(
        (value * _NOISE) // 255 + (120 if at // _PIXELS in bars else 0)
        for at, value in enumerate(noise)
    )


def _write(file: Path, shape: tuple[int, ...], data: bytes) -> None:
    head = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    with gzip.GzipFile(file, "wb", mtime=0, compresslevel=1) as packed:
        packed.write(head + data)
