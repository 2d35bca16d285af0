"""`make demo` notices each promise that is not kept."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "examples"))

import demo

SAMPLES, TESTS = 60_000, 10_000
EPOCH = {"seconds": 1.0, "samples": SAMPLES, "distinct": SAMPLES}
ONE = demo.Run(accuracy=0.90, epochs=[EPOCH, EPOCH], digests=["aa"])
FOUR = demo.Run(accuracy=0.895, epochs=[EPOCH, EPOCH], digests=["bb"] * 4)


def test_all_is_well() -> None:
    assert demo.broken_promises(ONE, FOUR, SAMPLES, TESTS) == []
    assert "89.50 %" in demo.table(ONE, FOUR)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"accuracy": 0.88}, "accuracies"),
        ({"epochs": [EPOCH]}, "numbers of samples"),
        ({"epochs": [EPOCH, {**EPOCH, "distinct": SAMPLES - 1}]}, "not each"),
        ({"digests": ["bb", "bb", "bb", "bc"]}, "weights"),
        ({"digests": ["bb"]}, "weights"),
    ],
)
def test_a_broken_promise_is_named(change: dict[str, Any], found: str) -> None:
    broken = demo.broken_promises(ONE, dataclasses.replace(FOUR, **change), SAMPLES, TESTS)
    assert len(broken) == 1
    assert found in broken[0]
