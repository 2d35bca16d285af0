"""Moving statistics of all peers' batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kungfu_tf import _keras, ops, peer
from kungfu_tf.initializer.equality import digests_of


def average_statistics(model: Any) -> None:
    """Gives all peers the mean of their moving statistics, bitwise the same. Eager.

    These are the floating variables that layers move themselves, as BatchNormalization does: not
    what is trained or frozen, nor what is of one peer's samples (metrics, the states of stateful
    RNNs, seeds). Those of a synchronised layer are the same everywhere and stay out.

    What is equal on all peers keeps its bits, which a rounded mean might change: the peers compare
    8 bytes of each variable first. Every peer must call it; where there are none it does nothing.
    """
    variables = list(_moving(model))
    if not variables or peer.alone():
        return
    digests = digests_of([v.numpy() for v in variables])
    rows = ops.all_gather(digests, name="average_statistics/digests").numpy()
    different = [variables[i] for i in np.flatnonzero((rows != rows[0]).any(axis=0))]
    values = [v.read_value() for v in different]
    means = ops.group_all_reduce(values, op="mean", name="average_statistics")
    for variable, mean in zip(different, means, strict=True):
        variable.assign(mean)


def _moving(model: Any) -> Iterator[Any]:
    module = _keras.package_of(model).module
    for layer, variable in _keras.moved_variables(model):
        is_metric = isinstance(layer, module.metrics.Metric)  # in Keras 2 they are layers
        is_stateful = isinstance(layer, module.layers.RNN) and layer.stateful
        if variable.dtype.is_floating and not is_metric and not is_stateful:
            yield variable
