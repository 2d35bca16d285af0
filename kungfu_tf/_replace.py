"""Functions of other packages that do more once a program uses us."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def replace(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Makes `owner.name(...)` call `replacement(original, ...)`. Done twice it is done once."""
    original = getattr(owner, name)
    if hasattr(original, "kungfu_replaced"):
        return

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    replaced.kungfu_replaced = original  # type: ignore[attr-defined]
    setattr(owner, name, replaced)
