"""Peers that are lost in the middle of `fit`, and the others, which go on or fail as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import programs, warm
from harness.launch import environment

PROGRAM = Path(__file__).parent / "survivors.py"
# The ways of the buckets: in memory that the peers share; by messages.
WAYS = {"direct": {"KUNGFU_DIRECT_BYTES": "1"}, "tcp": {"KUNGFU_TRANSPORT": "tcp"}}


@pytest.mark.parametrize("way", WAYS)
def test_the_others_repeat_the_step_and_go_on(way: str, tmp_path: Path) -> None:
    flags = ["-np", "4", "-on-failure", "survive"]
    done = programs.run(PROGRAM, tmp_path, flags=flags, env=WAYS[way])
    for who, phase, left in ((3, "backward", 3), (0, "epoch end", 2), (1, "validation", 1)):
        assert len(re.findall(rf"\[{who}\] injected .*'{phase}'", done.stdout)) == 1, done.stdout
        assert done.stdout.count(f"survived {phase}") == left, done.stdout + done.stderr
        assert re.search(rf"rank {who} \(.*\) was lost: killed by SIGKILL", done.stderr)
    assert done.stderr.count("went on") == 3, done.stderr
    assert "fit: 1 of 4 peers were lost in epoch 1, and 3 go on" in done.stderr
    # Rank 1 prints in place of rank 0.
    assert re.search(r"^\[1\] Epoch 2 - .*mae: ", done.stdout, re.MULTILINE), done.stdout


def test_where_the_job_ends_no_update_is_torn() -> None:
    env = environment()
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "3", *warm.python(env)]
    done = subprocess.run(
        [*command, str(PROGRAM), "torn"], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 128 + 9, done.stdout + done.stderr
    assert "[1] injected" in done.stdout
    changed = re.findall(r"changed (\d) of 8 in step 2", done.stdout)
    assert len(changed) == 2 and set(changed) <= {"0", "8"}, done.stdout + done.stderr
