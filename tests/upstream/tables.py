"""The tables of what is run."""

from __future__ import annotations

from pathlib import Path


def lines(table: Path, only: str) -> list[str]:
    """Those that contain a word."""
    found = [line for line in table.read_text().splitlines() if line and not line.startswith("#")]
    return [line for line in found if only in line]
