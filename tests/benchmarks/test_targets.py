"""How targets are judged by what was measured."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import systems
import targets
from systems import System
from targets import Measured
from verdict import Verdict


class Given(Measured):
    """Figures by system, as if they had been measured."""

    def __init__(self, rounds: Mapping[str, list[float]]) -> None:
        super().__init__({}, 1)
        self._rounds_of = rounds

    def rounds_of(self, kind: str, peers: int, name: str, key: str) -> list[float]:
        return self._rounds_of[name]


def test_what_is_told_beside_decides_nothing() -> None:
    measured = Given({"ours": [30e-6, 32e-6, 34e-6], "plain": [20e-6, 21e-6, 22e-6]})
    ratio = targets.at_most("loop", 2, "ours", ["plain"], ["4"], 2)
    found = targets.beside(ratio, targets.beyond("loop", 2, "ours", "plain", "4"))(measured)
    assert found.verdict is Verdict.REACHED
    assert found.figure.endswith("; 11 µs beyond plain")


def test_vectors_are_told_to_the_core() -> None:
    core = System("core", lambda _: [], {}, {"KUNGFU_TRANSPORT": "tcp"})
    told = targets.of_vectors(core, "avx2")
    assert told.name == targets.with_vectors("core", "avx2") == "core, avx2"
    assert told.environ == {"KUNGFU_TRANSPORT": "tcp", "KUNGFU_SIMD": "avx2"}


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("sse2", []),
        ("sse2 avx2 avx512f", ["avx2"]),
        ("avx512_vbmi2 avx2", ["avx2", "avx512"]),
    ],
)
def test_the_widest_vectors_come_last(
    monkeypatch: pytest.MonkeyPatch, flags: str, names: list[str]
) -> None:
    monkeypatch.setattr(systems.Path, "read_text", lambda _: f"flags : {flags}\n")
    assert systems.vectors() == names
