"""The variables of a TF1 graph of which each peer trains its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def add(graph: Any, variables: Iterable[Any]) -> None:
    """Says that these are."""
    known = of(graph)
    new = [v for v in variables if v.dtype.is_floating and not any(v is other for other in known)]
    graph._kungfu_differing = [*known, *new]


def of(graph: Any) -> list[Any]:
    """All of them."""
    variables: list[Any] = getattr(graph, "_kungfu_differing", [])
    return variables
