"""A TF1 graph that is finished."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def extended(graph: Any) -> Iterator[None]:
    """Within it the graph can grow, also if the program has finalized it."""
    was_finalized = graph.finalized
    graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if was_finalized:
            graph.finalize()
