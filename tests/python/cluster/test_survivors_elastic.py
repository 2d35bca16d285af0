"""Jobs that lose peers, and grow and shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs

PROGRAM = programs.FOLDER / "survivors_elastic.py"
FLAGS = {
    "asked": ["-w", "-H", "127.0.0.1:6", "-on-failure", "survive"],
    "spared": ["-spares", "2", "-H", "127.0.0.1:6"],
    "respawned": ["-respawn", "-H", "127.0.0.1:4", "-cooldown", "100ms-400ms"],
}
# Who dies, and whoever is left.
ASKED = (["1: begin", "n0: start", "n1: joined", "0: begin", "2: backward"], ["3", "n2"])
SPARED = (["1: begin", "0: backward"], ["2", "3", "n0", "n1"])
RESPAWNED = (["1: begin", "n0: start", "0: backward"], ["2", "3", "n1", "n2"])


@pytest.mark.parametrize(
    ("how", "plan", "ends"),
    [
        ("fit", "asked", ASKED),
        ("plain", "spared", SPARED),
        pytest.param("plain", "respawned", RESPAWNED, marks=pytest.mark.exhaustive),
        pytest.param("fit", "respawned", RESPAWNED, marks=pytest.mark.exhaustive),
        pytest.param("loop", "asked", ASKED, marks=pytest.mark.exhaustive),
        pytest.param("loop", "respawned", RESPAWNED, marks=pytest.mark.exhaustive),
    ],
)
def test_peers_are_lost_and_others_come(
    how: str, plan: str, ends: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    """Some die as they start, or just after they have come; and rank 0. Also in a plain `fit`."""
    done = programs.run(PROGRAM, tmp_path, how, plan, flags=["-np", "4", *FLAGS[plan]])
    said = done.stdout + done.stderr
    deaths, left = ends
    assert sorted(re.findall(r"dies as (\w+: \w+)", done.stdout)) == sorted(deaths), said
    assert sorted(re.findall(r"survived (\w+)", done.stdout)) == left, said
    lost = [death for death in deaths if not death.endswith("start")]
    assert done.stderr.count("was lost: killed by SIGKILL") == len(lost), said
    again = 0 if plan == "asked" else len(lost)
    assert len(re.findall(r"4 peers train again .* s after the loss of rank", said)) == again, said
