"""Each process on its own, as if there were no others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adapters import started

rank, size = started.rank, started.size
scope = contextlib.nullcontext
averages = False


def optimizer(inner: Any) -> Any:
    return inner


def run(function: Callable[[], Any]) -> Any:
    return function()


def mean(tensors: list[Any], name: str) -> list[Any]:
    """Each as it is: what a loop takes without the average."""
    return [tf.identity(tensor) for tensor in tensors]
