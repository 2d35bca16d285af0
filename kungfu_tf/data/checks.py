"""Checks the arguments of calls that read files and tables."""

from __future__ import annotations


def check_batch_size(batch_size: int | None, caller: str) -> None:
    """Raises ValueError if this is no batch size."""
    if batch_size is not None and not (isinstance(batch_size, int) and batch_size > 0):
        raise ValueError(f"{caller}: batch_size is a positive number or None, not {batch_size!r}")
