"""Restores a model's state after it was only tried."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from kungfu_tf.replicas import hidden_state, randomness
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def untouched(model: Any, also: Iterable[Any] = ()) -> Iterator[None]:
    """Afterwards the state that an inference changes is as before, and so are later random numbers.

    Args:
        model: A Keras model.
        also: More variables, such as those that a train step changes.
    """
    variables = [variable for _, variable in generations.moved_variables(model)]
    variables += [variable for _, variable in hidden_state.untracked_variables(model)]
    variables += [v for metric in model.metrics for v in metric.variables]
    states = [generations.native(v) for v in [*variables, *also]]
    before = [(state, state.read_value()) for state in states]
    with randomness.put_back(model):
        try:
            yield
        finally:
            for state, value in before:
                state.assign(value)
