"""An operation among some peers does not miss others that have ended in order."""

from __future__ import annotations

from harness import programs

PROGRAM = programs.FOLDER / "ends_apart.py"


def test_pairs_outlive_those_who_have_ended() -> None:
    done = programs.run(PROGRAM, flags=["-np", "4"])
    said = sorted(line for line in done.stdout.splitlines() if "ended" in line or "went" in line)
    assert said == [
        "[0] ended first",
        "[1] ended first",
        *["[2] went on alone"] * 3,  # eagerly, in a function, in a session
        "[2] went without a source",
        *["[3] went on alone"] * 3,
        "[3] went without a source",
    ]
