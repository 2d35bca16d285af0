"""The maps of the sources, ops/README.md and kungfu_tf/README.md, name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIX = {"kungfu_tf": ".py", "ops": ".h"}
ROOMS = {"kungfu_tf": "*/*.py", "ops": "**/*.h"}  # what stands in each folder that a map names


@pytest.mark.parametrize("folder", SUFFIX)
def test_each_file_that_a_map_names_is_there(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    there = [f"{path}" for part in (folder, "tests") for path in (ROOT / part).rglob("*.*")]
    named = set(re.findall(rf"`([\w/]+\{SUFFIX[folder]})`", text))
    missing = [name for name in named if not any(path.endswith(f"/{name}") for path in there)]
    assert named
    assert missing == []


@pytest.mark.parametrize("folder", SUFFIX)
def test_each_folder_is_on_its_map(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    folders = {path.parent.name for path in (ROOT / folder).glob(ROOMS[folder])}
    assert {name for name in folders if f"`{name}/`" not in text} == set()
