"""Who trains longer than the others goes on without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.launch import environment

PROGRAM = Path(__file__).with_name("straggler.py")


def test_pair_averaging_outlives_those_who_have_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kungfu_tf.launcher", "-np", "3", sys.executable, str(PROGRAM)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(line for line in done.stdout.splitlines() if "steps" in line)
    assert said == ["[0] steps 30", "[1] steps 10", "[2] steps 10"]
