"""The results of metrics, over the samples of all peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.call import current
from kungfu_tf.replicas import metrics
from kungfu_tf.upstream import generations


def results(original: Callable[..., Any], model: Any, logs: Any) -> Any:
    """Keras' method, which returns the results when a loop has ended."""
    fit = current()
    if fit is None or not fit.averages or fit.model is not model:
        return original(model, logs)
    for algorithm in generations.algorithms_of_model(model):
        algorithm.rest()  # here the peers meet for the first time when an epoch ends
    metrics.sum_states(model.metrics)
    if not logs:  # there was no batch on this peer
        logs = model.get_metrics_result()
    returned = fit.step_logs.without_additions(logs) if fit.step_logs else logs
    results = original(model, returned)
    if agreement.all_agree(results is returned):
        results = metrics.averaged(returned)
    return {**logs, **results} if fit.step_logs else results
