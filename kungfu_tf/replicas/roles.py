"""What the variables mean that layers move by themselves, each peer by its own batches.

Means of batches are known: the moving statistics of batch normalization. Of others (a queue of
samples, a table of counts) nobody knows what the peers' values are together, unless the program
says it, by `kungfu_tf.variables.combine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kungfu_tf.upstream import generations

_MEANS = re.compile(r"(moving|running)_(mean|var|avg|average|std)")  # as layers of one's own say


def moved(model: Any) -> Iterator[tuple[str, Any, Any]]:
    """What becomes of each variable: "mean", "sum", "root", "own" or "unknown"; its layer; and it.

    Not what is trained or frozen, nor what is of one peer's samples (metrics, the states of
    stateful RNNs, seeds), nor those of a synchronised layer, which are the same everywhere; and
    integers only if the program speaks of them.
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
    """Those that are averaged."""
    return (variable for how, _, variable in moved(model) if how == "mean")
