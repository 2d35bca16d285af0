"""Metrics over the samples of all peers, from those of each peer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kungfu_tf import ops
from kungfu_tf.upstream import generations


def sum_states(metrics: Iterable[Any]) -> None:
    """Gives every metric the sum of its states on all peers. Eager.

    States must add up, as those of Keras' metrics do: totals and counts, confusion matrices, sums
    of squares. Then the result is that of a single process with all samples: a mean weighted by
    samples, a true AUC, precision or F1 score.
    """
    states = [generations.native(v) for metric in metrics for v in metric.variables]
    sums = ops.group_all_reduce([v.read_value() for v in states], op="sum", name="fit/metrics")
    for state, total in zip(states, sums, strict=True):
        state.assign(total)


def averaged(logs: Any) -> Any:
    """The logs of a train step of the user's own, with the mean over peers of each number."""
    if not isinstance(logs, dict):
        return logs
    names = sorted(name for name, value in logs.items() if np.ndim(value) == 0)
    values = np.array([float(logs[name]) for name in names], np.float64)
    means = ops.all_reduce(values, op="mean", name="fit/logs").numpy()
    return {**logs, **dict(zip(names, means.tolist(), strict=True))}
