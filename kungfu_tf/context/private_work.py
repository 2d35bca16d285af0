"""What this peer does for itself, within a program that all peers run."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_private: contextvars.ContextVar[bool] = contextvars.ContextVar("private", default=False)


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Within it no graph is trained by all: this peer evaluates or predicts."""
    token = _private.set(True)
    try:
        yield
    finally:
        _private.reset(token)


def is_private() -> bool:
    """Whether we are within `private()`."""
    return _private.get()
