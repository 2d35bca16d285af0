"""What the tables of growth say of figures."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("matplotlib")

import growth
from growth import Quantity

PAIRS = {n: {"connections": n * (n - 1) / 2} for n in (2, 4, 8)}
TREE = {n: {"connections": n - 1} for n in (2, 4, 8)}


@pytest.mark.parametrize(
    ("figures", "cell"), [(PAIRS, "**4.67 ×**"), (TREE, "2.33 ×"), ({2: {"connections": 1}}, "")]
)
def test_what_grows_faster_than_n_log_n_is_bold(figures: growth.Figures, cell: str) -> None:
    assert growth.doubling(figures, "connections") == cell


def test_n_log_n_is_not_faster_than_itself() -> None:
    figures = {n: {"connections": n * math.log2(n)} for n in (256, 512)}
    assert growth.exponent(figures, "connections") == growth.linearithmic(figures)


def test_a_row_may_end_early() -> None:
    pairs, tree = ({n: each[n] for n in sizes} for each, sizes in ((PAIRS, [2, 4]), (TREE, TREE)))
    rows = list(
        growth.table(Quantity("connections", "connections", total=True), {"P": pairs, "T": tree})
    )
    assert rows == [
        "## Connections",
        "",
        "| processes | 2 | 4 | 8 | last doubling |",
        "|---|---|---|---|---|",
        "| P | 1 | 6 |  | **6.00 ×** |",
        "| T | 1 | 3 | 7 | 2.33 × |",
        "",
    ]


def test_a_strategy_ends_where_memory_might(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(_: object, processes: int, *__: object) -> dict[str, float]:
        return {"all_memory": processes**2 * 1e6}

    monkeypatch.setattr(growth, "once", once)
    monkeypatch.setattr(growth, "free_memory", lambda: 1e9)
    # 16 processes have 256 MB, of which the next size might take four times as much.
    assert list(growth.measured("RING", 512)) == [2, 4, 8, 16]
