"""A job whose peers are killed goes on from its last checkpoints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.launch import environment

PROGRAM = Path(__file__).with_name("recovery.py")


def test_trainings_go_on_where_their_backups_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-auto-recover", "0", "-np", "2"]
    done = subprocess.run(
        [*command, sys.executable, str(PROGRAM), str(tmp_path / "backup")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 1):
        for name, run, epochs in (("fit", 1, ["2", "3"]), ("elastic", 2, ["1", "2"])):
            line = rf"^\[{rank}\] {name} {run} epoch (\d)$"
            assert re.findall(line, done.stdout, re.MULTILINE) == epochs
        assert f"[{rank}] done 8" in done.stdout
        assert f"[{rank}] done 15" in done.stdout
    assert "starting all anew, 2 peers, 2 of at most 10 times after a failure" in done.stderr
    assert done.stderr.count("starting all anew") == 2, done.stderr
