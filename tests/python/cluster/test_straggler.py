"""Who trains longer than the others goes on without them."""

from __future__ import annotations

from harness import programs

PROGRAM = programs.FOLDER / "straggler.py"


def test_pair_averaging_outlives_those_who_have_ended() -> None:
    done = programs.run(PROGRAM, flags=["-np", "3"])
    said = sorted(line for line in done.stdout.splitlines() if "steps" in line)
    assert said == ["[0] steps 30", "[1] steps 10", "[2] steps 10"]
