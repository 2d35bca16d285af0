"""The variables that wrapped optimizers train, with their algorithms.

A TF1 graph knows them by their updates. Elsewhere each variable knows who trains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def note(algorithm: Any, variables: Iterable[Any]) -> None:
    """Notes that `algorithm` works around steps of these variables, outside of TF1 graphs."""
    for variable in variables:
        variable._kungfu_algorithm = algorithm


def algorithm_of(variable: Any) -> Any:
    """The algorithm that was noted last for a variable; None if there is none."""
    return getattr(variable, "_kungfu_algorithm", None)


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
