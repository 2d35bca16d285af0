"""Hosts mix their means, in kungfu_tf's words and in BlueFog's."""

from __future__ import annotations

from harness import programs

PROGRAM = programs.FOLDER / "hierarchical.py"


def test_means_of_two_hosts() -> None:
    done = programs.run_on_two_hosts(PROGRAM, flags=["-np", "3"])
    said = "".join(one.stdout for one in done)
    assert said.count("mixed hosts") == 3, said
