"""The `fit` that is running."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Fit:
    """A call of `fit`, in which all peers may take part.

    Attributes:
        model: What is trained.
        is_shared: Whether all peers train it.
        averages: Whether its metrics are those of all peers.
        x: What the program gave it to train on.
        data: What it is trained on; None until Keras has looked at it.
        is_synchronous: Whether the peers meet in every step.
        differs: Whether each peer trains a model of its own.
        elastic_run: The training that this is a part of, if peers may come and go.
        batch_size: What training begins with, if policies may change it; 0: what the data have.
        average: Open while the model is the average of them.
        background_iterators: Open while there may be iterators of the data.
        steps_per_execution: What the program wants, if Keras takes fewer for a while.
        told_of_divisor: Whether there was a warning of a loss that is no mean over samples.
        step_logs: The callback that knows what a step returns, if others may add to it.
    """

    model: Any
    is_shared: bool
    averages: bool
    x: Any = None
    data: Any = None
    is_synchronous: bool = True
    differs: bool = False
    elastic_run: Any = None
    batch_size: int | None = None
    average: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)
    background_iterators: contextlib.ExitStack = dataclasses.field(
        default_factory=contextlib.ExitStack
    )
    steps_per_execution: int | None = None
    told_of_divisor: bool = False
    step_logs: Any = None


_elastic_run: contextvars.ContextVar[Any] = contextvars.ContextVar("elastic_run", default=None)
_current: contextvars.ContextVar[Fit | None] = contextvars.ContextVar("fit", default=None)


def current() -> Fit | None:
    """The innermost one; None outside, and in what a program does by itself within it."""
    return _current.get()


@contextlib.contextmanager
def running(fit: Fit | None) -> Iterator[None]:
    """Within it, `fit` is the current one, and what callbacks `fit` is no part of a training."""
    current_before, elastic_run_before = _current.set(fit), _elastic_run.set(None)
    try:
        yield
    finally:
        _elastic_run.reset(elastic_run_before)
        _current.reset(current_before)


def followed() -> Any:
    """What the next `fit` is a part of."""
    return _elastic_run.get()


@contextlib.contextmanager
def within(elastic_run: Any) -> Iterator[None]:
    """Within it a `fit` is a part of this training."""
    token = _elastic_run.set(elastic_run)
    try:
        yield
    finally:
        _elastic_run.reset(token)
