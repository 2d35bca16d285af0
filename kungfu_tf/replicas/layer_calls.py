"""Replaces the `call` of a layer for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(
    layer: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Within it the layer's `call` is `make(call)`."""
    own = vars(layer).get("call")
    vars(layer)["call"] = make(layer.call)
    try:
        yield
    finally:
        del vars(layer)["call"]
        if own is not None:
            vars(layer)["call"] = own
