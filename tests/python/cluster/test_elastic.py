"""Training while peers come and go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.launch import environment

PROGRAM = Path(__file__).with_name("elastic.py")


def test_one_trace_serves_all_sizes() -> None:
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-w", "-np", "1", "-H", "127.0.0.1:3"]
    done = subprocess.run(
        [*command, sys.executable, str(PROGRAM)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ended = dict(re.findall(r"^\[(\d)\] ok (\d) \d+$", done.stdout, re.MULTILINE))
    assert ended == {"0": "2", "1": "2", "2": "0"}
