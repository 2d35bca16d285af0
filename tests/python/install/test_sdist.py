"""The source distribution has what a checkout has, so `make` does the same in both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 120.0  # seconds for one command


def printed(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT
    ).stdout


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="it is no checkout of git")
def test_it_has_every_file_of_the_repository(tmp_path) -> None:
    tracked = printed("git", "ls-files").splitlines()
    printed(sys.executable, "setup.py", "--quiet", "egg_info", f"--egg-base={tmp_path}")
    (sources,) = tmp_path.glob("*.egg-info/SOURCES.txt")
    missing = set(tracked) - set(sources.read_text().splitlines())
    assert missing == {".gitignore"}
