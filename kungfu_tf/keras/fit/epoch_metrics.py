"""The metrics of an epoch in which the peers change."""

from __future__ import annotations

from typing import Any

from kungfu_tf import peer
from kungfu_tf.replicas import metrics
from kungfu_tf.upstream import generations


class EpochMetrics:
    """Keeps the sums of all peers' metrics between two calls of `fit` in one epoch.

    Keras begins each call with metrics of 0. Rank 0 continues with the sums, and the others with 0.
    So at the epoch's end each sample counts once.
    """

    def __init__(self) -> None:
        self._states: list[Any] = []

    def keep(self, model: Any) -> None:
        """Adds up the metrics of all peers, and keeps the sums. All must call it."""
        metrics.sum_states(model.metrics)
        self._states = [variable.numpy() for variable in _variables(model)]

    def put_back(self, model: Any) -> None:
        """Gives rank 0's metrics what was kept, once."""
        states, self._states = self._states, []
        variables = _variables(model)
        if peer.is_root() and len(states) == len(variables):
            for variable, state in zip(variables, states, strict=True):
                variable.assign(state)


def _variables(model: Any) -> list[Any]:
    return [generations.native(v) for metric in model.metrics for v in metric.variables]
