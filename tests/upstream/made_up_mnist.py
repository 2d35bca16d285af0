"""Files of MNIST's names and form, with images that a linear model learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_COUNTS = {"train": 60_000, "t10k": 10_000}


def write(folder: Path) -> None:
    """Writes the four files. A bright column tells the class of an image."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed=1)
    for part, count in _COUNTS.items():
        labels = random.integers(0, 10, count, np.uint8)
        images = random.integers(0, 64, (count, 28, 28), np.uint8)
        images[np.arange(count), :, 2 * labels] = 255
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + values.tobytes())
