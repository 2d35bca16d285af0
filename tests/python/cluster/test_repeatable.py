"""Two runs of one program give the same bits."""

from __future__ import annotations

from pathlib import Path

from harness import programs

PROGRAM = programs.FOLDER / "repeatable.py"
PEERS = 3


def run(directory: Path) -> list[str]:
    """What each rank has written."""
    directory.mkdir()
    flags = ["-np", str(PEERS), "-strategy", "BINARY_TREE"]
    programs.run(PROGRAM, directory, flags=flags)
    return [(directory / str(rank)).read_text() for rank in range(PEERS)]


def test_two_runs_are_bitwise_equal(tmp_path):
    first, second = run(tmp_path / "first"), run(tmp_path / "second")
    steps = first[0].splitlines()
    assert len(steps) == len(set(steps)) == 20
    assert first == second == [first[0]] * PEERS
