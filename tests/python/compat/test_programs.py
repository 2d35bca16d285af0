"""Programs that were written for KungFu run on two peers, without an edit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kungfu_tf.info import tensorflow_version

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).with_name("programs")
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "KUNGFU_COLLECTIVE_TIMEOUT": "60",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": "1",
}
# Each runs where most can go wrong: what TensorFlow 1 had, and Keras 3.
HAS_TF1 = tensorflow_version().startswith("2.15")
RUN = [p.name for p in PROGRAMS.glob("tf*.py") if p.name.startswith("tf1_") == HAS_TF1]
# Each with what KungFu's own programs take it for.
OPTIMIZERS = ("sync-sgd", "async-sgd", "sma", "ada-sgd")
EXHAUSTIVE = {"sma"}  # a method that others test
OPTIONS = {
    "tf1_session.py": [["--kf-optimizer", optimizer] for optimizer in OPTIMIZERS],
    "tf1_elastic.py": [["--counts", what] for what in ("steps", "samples")],
}
CASES = [(program, options) for program in sorted(RUN) for options in OPTIONS.get(program, [[]])]
# On all peers the same.
SAID_BY_ALL = {
    "tf1_keras.py": ["loss: .*"],
    "tf2_elastic_reload.py": ["goes on: True, with all steps: True"],
    "tf1_policy.py": [r"batch sizes: \[8, 16, 32\]"],
}
SAID = {
    "tf1_elastic.py": {0: "ended [1, 2, 1]", 1: "detached [1, 2]"},
    "tf1_elastic_call.py": {
        0: "ended at 7 [1, 1, 1, 2, 2, 2, 1, 1]",
        1: "detached at 5 [2, 2, 2]",
    },
    "tf1_elastic_policy.py": {0: "ended [1, 2, 1]", 1: "detached [2]"},
    "tf2_elastic_call.py": {
        0: "ended at 9 [1, 1, 1, 2, 2, 2, 1, 1, 1]: -2.5",
        1: "detached at 6 [2, 2, 2]: -20.0",
    },
    "tf2_elastic.py": {0: "None [1, 2, 1]", 1: "detached [2]"},
}


def run(program: str, *arguments: object) -> str:
    """Runs it, and returns what it has printed."""
    compat = "kungfu,tf1" if program.startswith("tf1_") else "kungfu"
    size = ["-w", "-np", "1", "-H", "127.0.0.1:2"] if "elastic" in program else ["-np", "2"]
    size += ["-elastic-mode", "reload"] if "reload" in program else []
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", *size, "-compat", compat]
    job = subprocess.run(
        [*launcher, sys.executable, str(PROGRAMS / program), *map(str, arguments)],
        env={**ENVIRONMENT, **os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


def write_mnist(directory: Path) -> Path:
    """A small data set in the files of the real one: a bright column tells the class.

    Of each batch of 64 one peer gets five of the classes, and the other one the rest. An epoch of
    tf1_session.py has all batches that begin before the last 63 samples.
    """
    random = np.random.default_rng(seed=1)
    for part, count in (("train", 9 * 64 - 1), ("t10k", 128)):
        labels = random.integers(0, 5, count) + np.arange(count) // 32 % 2 * 5
        images = random.integers(0, 64, (count, 28, 28), dtype=np.uint8)
        images[np.arange(count), :, 2 * labels] = 255
        header = b"\0\0\x08\3" + np.array(images.shape, ">u4").tobytes()
        (directory / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = b"\0\0\x08\1" + np.array(labels.shape, ">u4").tobytes()
        content = header + labels.astype(np.uint8).tobytes()
        (directory / f"{part}-labels-idx1-ubyte").write_bytes(content)
    return directory


@pytest.mark.parametrize(
    ("program", "options"),
    [
        pytest.param(
            *(program, options),
            id=" ".join([program, *options[1:]]),
            marks=[pytest.mark.exhaustive] if EXHAUSTIVE & {*options} else [],
        )
        for program, options in CASES
    ],
)
def test_runs(program: str, options: list[str], tmp_path: Path) -> None:
    data = ["--data-dir", write_mnist(tmp_path)]
    arguments = {
        "tf1_session.py": [*data, "--steps", 64],
        "tf1_elastic.py": ["--model-dir", tmp_path / "model"],
        "tf2_elastic_reload.py": ["--checkpoint", tmp_path / "steps"],
        "tf1_estimator.py": [*data, "--model-dir", tmp_path / "model"],
    }
    output = run(program, *arguments.get(program, []), *options)
    accuracies = dict(re.findall(r"^\[([01])\] accuracy: (\d\.\d+)$", output, re.MULTILINE))
    assert len(accuracies) == 2, output
    # Who learns from the others knows more than half, which are its own classes. In pair averaging
    # one may have ended before another has begun.
    bound = 0.3 if "async-sgd" in options else 0.75
    assert min(map(float, accuracies.values())) > bound
    for line in SAID_BY_ALL.get(program, []):
        assert len(set(re.findall(rf"^\[[01]\] ({line})$", output, re.MULTILINE))) == 1, output
    for rank, line in SAID.get(program, {}).items():
        assert f"[{rank}] {line}" in output.splitlines(), output
