"""Moving statistics of all peers' batches."""

from __future__ import annotations

from typing import Any


def average_statistics(model: Any) -> None:
    """Gives all peers the mean of their moving statistics."""
    del model
