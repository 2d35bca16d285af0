"""What a trial must leave as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf.replicas import hidden_state, randomness
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def kept(model: Any) -> Iterator[None]:
    """Afterwards the model, its optimizers and metrics, and the random numbers are as before."""
    variables = [*model.weights, *(v for metric in model.metrics for v in metric.variables)]
    for optimizer in generations.optimizers_of(model):
        variables += generations.variables_of(optimizer)
    for algorithm in generations.algorithms_of_model(model):
        variables += algorithm.variables
    states = [generations.native(v) for v in variables]
    states += [variable for _, variable in generations.moved_variables(model)]
    states += [variable for _, variable in hidden_state.untracked_variables(model)]
    before = [(state, state.read_value()) for state in states]
    with randomness.put_back(model):
        try:
            yield
        finally:
            for state, value in before:
                state.assign(value)
