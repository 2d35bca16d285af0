"""Keras' own tests of its optimizers, which are installed with it, pass with every one wrapped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from kungfu_tf import _keras

[PACKAGE] = [p for p in _keras.packages() if p.module.Model is tf.keras.Model]
OPTIMIZERS = Path(PACKAGE.private("optimizers").__file__).parent


def run(arguments: list[str], which: str, report: Path) -> dict[str, Any]:
    """Lets Keras' tests run, and returns what the plugin reports."""
    here = Path(__file__).parent
    found = subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider"],
            *["-c", os.devnull, "--rootdir", report.parent, "-p", "wrap_every_optimizer"],
            *arguments,
        ],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "KUNGFU_TEST_REPORT": str(report),
            "KUNGFU_TEST_WRAP": which,
            "PYTHONPATH": os.pathsep.join([str(here.parents[2]), str(here)]),
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
    return json.loads(report.read_text())


if PACKAGE.generation == 3:

    def test_with_every_optimizer_wrapped(tmp_path):
        report = run([str(OPTIMIZERS)], "parts", tmp_path / "report")
        assert report["by plain optimizers"] == []
        assert report["made"] > 300
        assert report["updates"] > 600
        # Fewer: an update without gradients is refused, one of several micro steps exchanges once.
        assert report["exchanges"] > 500

    def test_with_optimizers_that_delegate_wrapped_as_a_whole(tmp_path):
        modules = ["loss_scale_optimizer", "multi_optimizer"]
        files = [str(OPTIMIZERS / f"{module}_test.py") for module in modules]
        report = run(files, "whole", tmp_path / "report")
        assert report["by plain optimizers"] == []
        assert report["updates"] > 20
        assert report["exchanges"] > 20

else:

    def test_its_wheel_has_none():
        """One that brings them is to be tested as Keras 3's is."""
        assert list(OPTIMIZERS.rglob("*_test.py")) == []
