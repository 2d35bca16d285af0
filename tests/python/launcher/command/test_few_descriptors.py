"""A machine on which a process may open a handful of files only."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest


@pytest.mark.parametrize("most", [7, 10, 12, 13, 14, 16, 20, 30])
def test_the_launcher_says_in_one_line_that_they_are_too_few(most: int) -> None:
    # The hard limit, too: a launcher of eight peers has 18 descriptors when it raises its own limit
    # to that. Of them are 3 standard ones, 2 to be woken, 8 of ports, 5 for the pipes of its guard.
    done = subprocess.run(
        [sys.executable, "-m", "kungfu_tf.launcher", "-np", "8", "sleep", "60"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (2, 126), done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("kungfu-run: "), done.stderr
    assert "open files" in said, done.stderr
