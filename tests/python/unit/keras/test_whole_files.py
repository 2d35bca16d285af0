"""Whatever ends a process while it saves: what was saved before, or the new file, can be loaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("saves_and_dies.py")


@pytest.mark.parametrize(
    "where", [(), pytest.param(("calls",), marks=pytest.mark.exhaustive)], ids=["accesses", "calls"]
)
def test_a_process_that_dies_leaves_whole_files(where: tuple[str, ...], tmp_path: Path) -> None:
    if where and shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, *where],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    deaths = dict(re.findall(r"^(\S+) (.*)$", done.stdout, re.MULTILINE))
    assert {"model.keras", "model.weights.h5"} <= set(deaths), done.stdout
    assert min(int(number) for each in deaths.values() for number in each.split()) >= 2, deaths
