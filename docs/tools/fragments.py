"""Runs the pieces of Python that pages show: `kungfu-run -w -np 2 python -m docs.tools.fragments`.

Each page is one program: what is given to it, its blocks that are marked to run, its checks. It
begins with the names of a usual program of Keras, which the page does not show.

    python -m docs.tools.fragments KIND [PAGE ...]    kind: "" or "alone"
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from docs.tools import pages

keras = tf.keras
SAMPLES = 256


def given() -> dict[str, Any]:
    """What a program of Keras has when our lines come. Each peer begins with other weights."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(kf.rank())
    random = np.random.default_rng(7)
    x, y = (random.normal(size=(SAMPLES, n)).astype(np.float32) for n in (4, 1))
    samples = tf.data.Dataset.from_tensor_slices((x, y))
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    return {
        "callbacks": [],
        "dataset": samples,
        "keras": keras,
        "kf": kf,
        "loss": "mse",
        "metrics": ["mae"],
        "model": model,
        "np": np,
        "optimizer": keras.optimizers.SGD(0.01),
        "samples": samples,
        "tf": tf,
        "validation": samples.batch(64),
        "x": x,
        "y": y,
    }


def run_page(page: Path, kind: str) -> int:
    """Runs what a page marks, in a folder of its own. Returns how many blocks that were."""
    names: dict[str, Any] | None = None
    setup: list[pages.Note] = []
    count = 0
    for part in pages.parts_of(page.read_text()):
        if isinstance(part, pages.Note) and part.kind == "given":
            setup.append(part)
        elif isinstance(part, pages.Note) and part.kind == "check" and names:
            _execute(page, part.text, part.line, names)
        elif pages.is_fragment(part, kind):
            assert isinstance(part, pages.Block)
            names = given() if names is None else names
            for note in setup:
                _execute(page, note.text, note.line, names)
            setup = []
            _execute(page, part.text, part.line, names)
            count += 1
    return count


def _execute(page: Path, code: str, line: int, names: dict[str, Any]) -> None:
    """Runs it. A traceback names the line of the page."""
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)


def main() -> None:
    """Runs the pages."""
    kind, *files = sys.argv[1:]
    folder = Path.cwd()
    for file in files:
        name = pages.name_of(Path(file)).removesuffix(".md")
        (folder / name).mkdir(parents=True, exist_ok=True)  # of all peers
        os.chdir(folder / name)
        count = run_page(Path(file), kind)
        if kf.is_root():
            print(f"{name}: {count} {pages.DONE}", flush=True)


if __name__ == "__main__":
    main()
