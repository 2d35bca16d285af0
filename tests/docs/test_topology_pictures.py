"""Pictures of topologies show the links of their matrices."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from docs.tools import topology_pictures
from kungfu_tf import topology


def links(svg: str) -> set[tuple[int, int]]:
    """The pairs (from, to) of ranks that arrows join."""
    root = ElementTree.fromstring(svg)
    places = {
        int(text.text or ""): (float(dot.get("cx", 0)), float(dot.get("cy", 0)))
        for dot, text in zip(root.iter("circle"), root.iter("text"), strict=True)
    }

    def nearest(x: str, y: str) -> int:
        place = float(x), float(y)
        return min(places, key=lambda rank: np.hypot(*np.subtract(places[rank], place)))

    found = set()
    for path in root.iter("path"):
        ends = re.fullmatch(r"M(\S+) (\S+)L(\S+) (\S+)", path.get("d", ""))
        if ends is None or path.get("marker-end") is None:
            continue
        source, target = nearest(*ends.group(1, 2)), nearest(*ends.group(3, 4))
        found.add((source, target))
        if path.get("marker-start") is not None:
            found.add((target, source))
    return found


@pytest.mark.parametrize("shown", topology_pictures.SHOWN, ids=str)
def test_each_link_is_an_arrow(shown: topology.Topology) -> None:
    for step in range(shown.length(8)):
        matrix = shown.at(step, 8)
        expected = {(j, i) for i, j in np.argwhere(matrix).tolist() if i != j}
        assert links(topology_pictures.picture(shown, step)) == expected


def test_all_that_need_no_matrices_are_shown() -> None:
    families = {str(shown).split("(")[0] for shown in topology_pictures.SHOWN}
    given = {"Neighbors", "Topology", "check", "from_matrix", "from_networkx", "metropolis"}
    assert families == set(topology.__all__) - given


def test_the_table_has_a_row_for_each() -> None:
    rows = topology_pictures.table().splitlines()
    assert len(rows) == 2 + len(topology_pictures.SHOWN)
    assert all(row.count("|") == 3 for row in rows)
    assert "and 3 more" in next(row for row in rows if "equi_dynamic" in row)
