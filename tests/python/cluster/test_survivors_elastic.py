"""Jobs that lose peers, and grow and shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs

PROGRAM = programs.FOLDER / "survivors_elastic.py"


@pytest.mark.parametrize("how", ["fit", "loop"])
def test_peers_are_lost_and_others_come(how: str, tmp_path: Path) -> None:
    """One dies, one as it starts, one just after it has come, then rank 0, and another one."""
    flags = ["-np", "4", "-w", "-H", "127.0.0.1:6", "-on-failure", "survive"]
    done = programs.run(PROGRAM, tmp_path, how, flags=flags)
    said = done.stdout + done.stderr
    deaths = ["1 dies: begin", "n0 dies: start", "n1 dies: joined", "0 dies: begin"]
    for death in [*deaths, "2 dies: backward"]:
        assert done.stdout.count(death) == 1, said
    assert sorted(re.findall(r"survived (\w+)", done.stdout)) == ["3", "n2"], said
    assert done.stderr.count("was lost: killed by SIGKILL") == 4, said
