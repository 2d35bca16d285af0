"""Extends a TF1 graph that is finalized."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def extended(graph: Any) -> Iterator[None]:
    """Lets operations be added to the graph, even if the program has finalized it."""
    was_finalized = graph.finalized
    graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if was_finalized:
            graph.finalize()
