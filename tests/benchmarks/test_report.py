"""What tables say, and when none is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import report

HEAD = ["| | 4 B |", "|---|---|"]


@pytest.mark.parametrize(
    ("rounds", "shown"),
    [
        ([], "no result"),
        ([0.02], "20.0 ms"),
        ([0.02, 0.02], "20.0 ms ±0 %"),
        ([0.01, 0.02, 0.03], "20.0 ms ±50 %"),
    ],
)
def test_one_round_has_no_spread(rounds: list[float], shown: str) -> None:
    assert report.show(rounds) == shown


@pytest.mark.parametrize("body", [[], HEAD, [*HEAD, "", *HEAD]])
def test_a_table_without_a_row_does_not_replace_one_that_has_some(
    tmp_path: Path, body: list[str]
) -> None:
    report.write(tmp_path / "kept", "Title", [*HEAD, "| core | 1 µs |"])
    before = (tmp_path / "kept.md").read_text()
    with pytest.raises(SystemExit) as ended:
        report.write(tmp_path / "kept", "Title", body)
    assert ended.value.code not in (0, None)
    assert (tmp_path / "kept.md").read_text() == before
