"""Keras' own tests of its optimizers, which are installed with it, pass with every one wrapped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from kungfu_tf.upstream import generations

[PACKAGE] = [p for p in generations.packages() if p.module.Model is tf.keras.Model]
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
            "PYTHONPATH": os.pathsep.join([*sys.path, str(here)]),
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
    return json.loads(report.read_text())


MODULES = ["loss_scale_optimizer", "multi_optimizer"]  # that delegate
FILES = [file for name in MODULES if (file := OPTIMIZERS / f"{name}_test.py").exists()]

if FILES:

    @pytest.mark.exhaustive
    def test_with_every_optimizer_wrapped(tmp_path):
        report = run([str(OPTIMIZERS)], "parts", tmp_path / "report")
        assert report["by plain optimizers"] == []
        assert report["made"] > 300
        assert report["updates"] > 600
        # Fewer: an update without gradients is refused, one of several micro steps exchanges once.
        assert report["exchanges"] > 500

    def test_with_optimizers_that_delegate_wrapped_as_a_whole(tmp_path):
        report = run([str(file) for file in FILES], "whole", tmp_path / "report")
        assert report["by plain optimizers"] == []
        assert report["updates"] > 10
        assert report["exchanges"] > 10

else:

    def test_its_wheel_has_none():
        """Those of Keras 2, and of some versions of Keras 3, bring none."""
        assert list(OPTIMIZERS.rglob("*_test.py")) == []
