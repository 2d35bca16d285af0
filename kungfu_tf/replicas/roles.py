"""The meaning of variables that layers update themselves, each peer by its own batches.

Moving statistics of batch normalization are known to be means. How to combine other variables (a
queue of samples, a table of counts) is unknown, unless the program says it by
`kungfu_tf.variables.combine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kungfu_tf.upstream import generations

_MEANS = re.compile(r"(moving|running)_(mean|var|avg|average|std)")  # as layers of one's own say


def moved(model: Any) -> Iterator[tuple[str, Any, Any]]:
    """How to combine each variable ("mean", "sum", "root", "own" or "unknown"), its layer, and it.

    Left out are trained and frozen variables; those of one peer's samples (metrics, the states of
    stateful RNNs, seeds); those of a synchronised layer, which are equal on all peers; and integers
    for which the program has not said it.
    """
    module = generations.package_of(model).module
    for layer, variable in generations.moved_variables(model):
        told = getattr(variable, "_kungfu_combine", None)
        is_metric = isinstance(layer, module.metrics.Metric)  # in Keras 2 they are layers
        is_stateful = isinstance(layer, module.layers.RNN) and layer.stateful
        if told is not None:
            yield told, layer, variable
        elif variable.dtype.is_floating and not is_metric and not is_stateful:
            is_known = isinstance(layer, module.layers.BatchNormalization)
            is_mean = is_known or _MEANS.search(generations.name_of(variable))
            yield "mean" if is_mean else "unknown", layer, variable


def moving_means(model: Any) -> Iterator[Any]:
    """The variables that are averaged."""
    return (variable for how, _, variable in moved(model) if how == "mean")
