"""The scripts of benchmarks/, as they are and in a folder where nothing is built or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NEED_NO_MATPLOTLIB = {"surviving.py", "targets.py"}

sys.path.append(str(BENCHMARKS))

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A copy of benchmarks/ and no more."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(BENCHMARKS, tmp_path / "benchmarks", ignore=ignored))


@pytest.fixture
def call(bare: Path, tmp_path: Path) -> Call:
    """Calls a script of the copy; the PATH has no MPI."""

    def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        if script not in NEED_NO_MATPLOTLIB:
            pytest.importorskip("matplotlib")
        environ = {**os.environ, "PATH": str(tmp_path)}
        command = [sys.executable, str(bare / script), *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    return run
