"""By how much the gradients that are exchanged are scaled, with the loss."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_current: contextvars.ContextVar[Any] = contextvars.ContextVar("scale", default=1.0)


@contextlib.contextmanager
def within(scale: Any) -> Iterator[None]:
    """Within it gradients are `scale` times what they should be; a scalar."""
    token = _current.set(scale)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Any:
    """The scale, a float64 scalar; 1 outside of `within`."""
    return tf.cast(_current.get(), tf.float64)
