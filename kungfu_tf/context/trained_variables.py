"""The variables that wrapped optimizers train in a TF1 graph, with their algorithms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def add(graph: Any, algorithm: Any, variables: Iterable[Any]) -> None:
    """Notes that `algorithm` works around an update of these variables."""
    graph._kungfu_trained = [*_of(graph), (algorithm, list(variables))]


def algorithms_of(graph: Any) -> list[Any]:
    """The algorithms of a graph, each once, in the order of the program."""
    return list(dict.fromkeys(algorithm for algorithm, _ in _of(graph)))


def differing_of(graph: Any) -> list[Any]:
    """The trained variables whose values differ between the peers."""
    trained = [v for algorithm, part in _of(graph) if not algorithm.keeps_equal for v in part]
    by_ref = {v.ref(): v for v in trained if v.dtype.is_floating}
    return list(by_ref.values())


def _of(graph: Any) -> list[tuple[Any, list[Any]]]:
    trained: list[tuple[Any, list[Any]]] = getattr(graph, "_kungfu_trained", [])
    return trained
