"""Jobs that lose peers, and grow and shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs, ways

PROGRAM = programs.FOLDER / "survivors_elastic.py"
FLAGS = {
    "asked": ["-w", "-on-failure", "survive"],
    "spared": ["-spares", "2"],
    "respawned": ["-respawn", "-cooldown", "100ms-400ms"],
}
SLOTS = {"asked": 6, "spared": 6, "respawned": 4}
# Who dies, and whoever is left.
ASKED = (["1: begin", "n0: start", "n1: joined", "0: begin", "2: backward"], ["3", "n2"])
SPARED = (["1: begin", "0: backward"], ["2", "3", "n0", "n1"])
RESPAWNED = (["1: begin", "n0: start", "0: backward"], ["2", "3", "n1", "n2"])


DAILY = {("fit", "asked", "direct"), ("plain", "spared", "direct")}
JOBS = [
    *(("fit", "asked", way, ASKED) for way in ways.ALL),
    *(("fit", "respawned", way, RESPAWNED) for way in ways.ALL),
    ("loop", "asked", "direct", ASKED),
    ("loop", "respawned", "direct", RESPAWNED),
    ("plain", "spared", "direct", SPARED),
    ("plain", "respawned", "direct", RESPAWNED),
]


@pytest.mark.lost_peers
@pytest.mark.parametrize(
    ("how", "plan", "way", "ends"),
    [pytest.param(*job, marks=[] if job[:3] in DAILY else pytest.mark.exhaustive) for job in JOBS],
)
def test_peers_are_lost_and_others_come(
    how: str, plan: str, way: str, ends: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    """Some die as they start, or just after they have come; and rank 0. Also in a plain `fit`."""
    out, err = ways.run(way, PROGRAM, tmp_path, how, plan, flags=FLAGS[plan], slots=SLOTS[plan])
    deaths, left = ends
    assert sorted(re.findall(r"dies as (\w+: \w+)", out)) == sorted(deaths), out + err
    assert sorted(re.findall(r"survived (\w+)", out)) == left, out + err
    lost = [death for death in deaths if not death.endswith("start")]
    assert err.count("was lost: killed by SIGKILL") == len(lost), out + err
    again = 0 if plan == "asked" else len(lost)
    assert len(re.findall(r"4 peers train again .* s after the loss of rank", err)) == again, err
