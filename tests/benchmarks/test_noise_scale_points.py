"""The trainings behind the table of benchmarks/noise_scale.py lie beside it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("matplotlib")

import report

SCRIPT = Path(report.__file__).parent / "noise_scale.py"
POINTS = [(3200, 32, 40.5), (9600, 64, 80.25)]


@pytest.fixture
def script() -> ModuleType:
    """By its path: programs/ has one of the same name."""
    spec = importlib.util.spec_from_file_location("benchmark_of_noise_scale", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_points_are_written_and_used_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "not" / "there yet"
    monkeypatch.setattr(sys, "argv", ["noise_scale.py", "--results", str(folder)])
    seeds = []

    def lines(_program: Path, seed: int, _rate: float, *kinds: str, **_: Any) -> list[str]:
        seeds.append(seed)
        found = {"seed": seed, "reached": True, "steps": 100, "samples": 9600, "points": POINTS}
        return [json.dumps({"kind": kind, **found}) for kind in kinds]

    monkeypatch.setattr(script, "reported", lines)
    script.main()
    assert {path.name for path in folder.iterdir()} == {
        "noise_scale.jsonl",
        "noise_scale.md",
        "noise_scale.png",
    }
    kept = list(map(json.loads, (folder / "noise_scale.jsonl").read_text().splitlines()))
    assert len(kept) == len(script.SEEDS) * len(script.KINDS)
    assert all(course["points"] == list(map(list, POINTS)) for course in kept)

    table = (folder / "noise_scale.md").read_text()
    script.main()
    assert seeds == list(script.SEEDS)
    assert (folder / "noise_scale.md").read_text() == table
