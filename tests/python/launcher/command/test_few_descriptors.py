"""A machine on which a process may open a handful of files only."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest


@pytest.mark.parametrize("most", [7, 10, 12, 13, 14, 16])
def test_the_launcher_says_in_one_line_that_they_are_too_few(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = subprocess.run(
        [sys.executable, "-m", "kungfu_tf.launcher", "-np", "8", "sleep", "60"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (2, 126), done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("kungfu-run: "), done.stderr
    assert "open files" in said, done.stderr
