"""`add_loss` of a sum over the samples of a batch, which a `fit` on several peers averages.

A sum is seen in the graph of the train step, where batches are of any size: on its way to the loss
nothing divides it by a number that depends on the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.keras.fit.call import current
from kungfu_tf.upstream.warn import warn

_SAME_SCALE = ("Identity", "Cast", "Neg", "Reshape", "Squeeze", "ExpandDims")
_ADDITIONS = ("AddV2", "Add", "AddN", "Sub")
_DIVISIONS = ("RealDiv", "Div", "DivNoNan")
_DATA = ("Placeholder", "IteratorGetNext", "OptionalGetValue")


def add_loss(original: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method; rank 0 warns, once in a `fit` that all peers share."""
    losses = tf.nest.flatten(args[0] if args else list(kwargs.values())[:1])
    fit = current()
    if fit is not None and fit.is_shared and not fit.told_of_sum and not peer.is_single_process():
        fit.told_of_sum = any(map(adds_up_samples, losses))
        if fit.told_of_sum and peer.is_root():
            warn(
                f"layer '{layer.name}': add_loss of a sum over the samples of a batch, while "
                "gradients are averaged over the peers as if it were a mean: a step is not the one "
                "that a single process takes. Divide it by the number of samples, as "
                "keras.ops.mean does"
            )
    return original(layer, *args, **kwargs)


def adds_up_samples(loss: Any) -> bool:
    """Whether a tensor of a graph is a sum over samples, or contains one. False if in doubt.

    Args:
        loss: Given to `add_loss`; Keras adds up the elements of one that is no scalar.
    """
    if not isinstance(loss, tf.Tensor) or not isinstance(getattr(loss, "graph", None), tf.Graph):
        return False
    return _is_of_samples(loss, [0]) or _has_sum(loss)


def _has_sum(tensor: Any) -> bool:
    kind, inputs = tensor.op.type, list(tensor.op.inputs)
    if kind in _SAME_SCALE:
        return _has_sum(inputs[0])
    if kind in _ADDITIONS:
        return any(map(_has_sum, inputs))
    if kind == "Mul":
        of_data = [one for one in inputs if _depends_on_data(one)]
        return len(of_data) == 1 and _has_sum(of_data[0])
    if kind in _DIVISIONS:
        return not _depends_on_data(inputs[1]) and _has_sum(inputs[0])
    if kind == "Sum":
        axes = tf.get_static_value(inputs[1])
        return axes is not None and (_is_of_samples(inputs[0], axes) or _has_sum(inputs[0]))
    return False


def _is_of_samples(tensor: Any, axes: Any) -> bool:
    """Whether one of the axes is that of the samples, whose number a graph does not know."""
    rank = tensor.shape.rank
    return bool(rank) and 0 in np.reshape(axes, -1) % rank and tensor.shape[0] is None


def _depends_on_data(tensor: Any) -> bool:
    """Whether an input of the graph leads to it, and not only weights and constants of layers."""
    captured = {one.name for one in getattr(tensor.graph, "internal_captures", [])}
    waiting, seen = [tensor], set[str]()
    while waiting:
        one = waiting.pop()
        if one.name in captured or one.op.name in seen:
            continue
        seen.add(one.op.name)
        if one.op.type in _DATA and one.dtype not in (tf.resource, tf.variant):
            return True
        waiting.extend(one.op.inputs)
    return False
