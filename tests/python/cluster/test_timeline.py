"""A timeline that cannot be written is no reason not to train."""

from __future__ import annotations

from harness import programs

PROGRAM = programs.FOLDER / "sums_once.py"


def test_a_job_runs_without_it() -> None:
    done = programs.run(PROGRAM, flags=["-np", "2"], env={"KUNGFU_TIMELINE": "/nowhere/x"})
    assert sorted(line for line in done.stdout.splitlines() if "sum" in line) == [
        "[0] the sum is 2.0",
        "[1] the sum is 2.0",
    ]
    for path in ("/nowhere/x", "/nowhere/x.1"):
        told = f"KUNGFU_TIMELINE: operations are not recorded: timeline {path}: No such file"
        assert told in done.stdout + done.stderr, done.stderr
