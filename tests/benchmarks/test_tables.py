"""Tables of systems of which some, or all, have failed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("matplotlib")

import all_reduce
import auto
import systems
import targets


def test_auto_beside_nothing_is_no_result() -> None:
    of_one = {key: [1e-3] for key in auto.SIZES}
    nothing = ["no result"] * len(auto.SIZES)
    assert list(auto.compared({"AUTO": of_one, "RING": {}})) == nothing
    assert list(auto.compared({"AUTO": {}, "RING": of_one})) == nothing


@pytest.mark.parametrize("script", [auto, targets])
def test_nothing_is_written_where_all_have_failed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "installed", dict)  # it may compile
    monkeypatch.setattr(script, "require", lambda *_: None)
    monkeypatch.setattr(script, "in_turns", lambda systems, *_: {s.name: {} for s in systems})
    monkeypatch.setattr(sys, "argv", ["script", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="nothing was measured"):
        script.main()
    assert list(tmp_path.iterdir()) == []


def test_a_section_without_figures_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_reduce, "installed", dict)
    monkeypatch.setattr(sys, "argv", ["all_reduce.py", "--only", "fit", "--results", str(tmp_path)])
    measured = {"kungfu_tf": {"step": [0.02]}}
    monkeypatch.setattr(all_reduce, "in_turns", lambda *_: measured)
    all_reduce.main()
    before = (tmp_path / "all_reduce.json").read_text()
    assert "kungfu_tf" in before
    monkeypatch.setattr(all_reduce, "in_turns", lambda *_: {"kungfu_tf": {}})
    all_reduce.main()
    assert (tmp_path / "all_reduce.json").read_text() == before
    table = (tmp_path / "all_reduce.md").read_text()
    assert "| kungfu_tf | 20.0 ms | " in table
    assert table.count("`make bench-peers`") == 1
