"""What this peer does for itself, within a program that all peers run."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from kungfu_tf import _gate, peer
from kungfu_tf._hook import Hook

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
    """Whether this peer is on its own."""
    return peer.alone() or is_within_private()


def is_within_private() -> bool:
    """Whether we are within `private()`."""
    return _private.get()


def is_shared(graph: Any, hooks: list[Any]) -> bool:
    """Whether all peers take part in a session of `graph`."""
    return not is_private() and bool(_gate.gates_of(graph) or has_ours(hooks))


def has_ours(hooks: Any) -> bool:
    """Whether one of ours is among the hooks."""
    return any(isinstance(hook, Hook) for hook in hooks or [])
