"""A call of `fit`."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from kungfu_tf import context


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
        passes: Open while there may be iterators of the data.
        steps_per_execution: What the program wants, if Keras takes fewer for a while.
        told_of_divisor: Whether there was a warning of a loss that is no mean over samples.
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
    passes: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)
    steps_per_execution: int | None = None
    told_of_divisor: bool = False


def current() -> Fit | None:
    """The innermost one; None outside, and in what a program does by itself within it."""
    fit = context.current().fit
    assert fit is None or isinstance(fit, Fit)
    return fit
