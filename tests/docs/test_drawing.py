"""The drawing of the rooms."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import drawing

FILES = {
    "kungfu_tf/__init__.py": "from kungfu_tf import peer\n",
    "kungfu_tf/errors.py": "",
    "kungfu_tf/peer.py": "from kungfu_tf import errors\n",
    "kungfu_tf/ops/__init__.py": "from kungfu_tf.ops.group import x\nfrom ..peer import rank\n",
    "kungfu_tf/ops/group.py": "def f():\n    import kungfu_tf.errors\n    import os.ops\n",
    "ops/base/status.h": "#include <vector>\n",
    "ops/plan/graph.h": '#include "ops/base/status.h"\n',
    "ops/peer/tcp/x.cc": '#include "ops/plan/graph.h"\n  # include "ops/base/status.h"\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_rooms_of_python(root: Path) -> None:
    assert drawing.python_rooms(root) == {
        "__init__": {"peer"},
        "errors": set(),
        "ops": {"errors", "peer"},
        "peer": {"errors"},
    }


def test_rooms_of_cpp(root: Path) -> None:
    expected = {"base": set(), "peer/tcp": {"base", "plan"}, "plan": {"base"}}
    assert drawing.cpp_rooms(root) == expected


def test_an_arrow_that_follows_from_others_is_left_out(root: Path) -> None:
    assert drawing.of(drawing.cpp_rooms(root), "x").count("marker-end") == 2


def test_all_rooms_are_drawn_from_above_to_below(root: Path) -> None:
    text = drawing.of(drawing.python_rooms(root), "rooms & halls")
    heights = {}
    for part in text.split("<text ")[1:]:
        heights[part.split(">")[1].split("<")[0]] = float(part.split('y="')[1].split('"')[0])
    assert heights["ops"] == heights["__init__"] < heights["peer"] < heights["errors"]
    assert 'aria-label="rooms &amp; halls"' in text


def test_a_circle_stands_in_one_row() -> None:
    text = drawing.of({"a": {"b"}, "b": {"a", "c"}, "c": set()}, "x")
    heights = [part.split('y="')[1].split('"')[0] for part in text.split("<text ")[1:]]
    assert heights[0] == heights[1] != heights[2]
    assert text.count("marker-end") == 3
