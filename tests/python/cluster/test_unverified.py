"""What cannot be verified is said at the end of the program, and compared as far as it can be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import programs

from kungfu_tf.info import tensorflow_version

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = programs.FOLDER / "unverified.py"

pytestmark = pytest.mark.skipif(
    tensorflow_version().startswith("2.15"), reason="another TensorFlow says the same"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "2", "-verify"]
    return subprocess.run(
        [*launcher, sys.executable, str(PROGRAM), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_what_is_not_verified_is_said() -> None:
    job = run()
    assert job.returncode == 0, job.stdout + job.stderr
    lines = re.findall(r"^\[\d\] kungfu_tf: -verify: .*$", job.stderr, re.MULTILINE)
    said = [
        "nothing is verified of a loop but that its variables are equal on all peers at the end (1",
        "nothing is verified of sessions: each peer trains a model of its own, by design",
    ]
    assert len(lines) == len(said), job.stderr
    for line, expected in zip(lines, said, strict=True):
        assert line.startswith(f"[0] kungfu_tf: -verify: {expected}"), line


def test_variables_that_differ_at_the_end_end_the_job() -> None:
    job = run("wrong")
    assert job.returncode != 0, job.stdout + job.stderr
    assert "DivergenceError: 1 of 1 variables differ from rank 0's at the end" in job.stderr
