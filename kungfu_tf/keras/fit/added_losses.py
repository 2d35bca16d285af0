"""`add_loss` of a sum over the samples of a batch, which a `fit` on several peers averages.

A sum is seen in the graph of the train step: on its way to the loss nothing divides it by the
number of samples, nor by a number that depends on the batch.
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
    return _samples(loss, [0]) != 0 or _summed(loss) != 0


def _summed(tensor: Any) -> int:
    """How many samples a sum in it has; -1: a graph does not know how many; 0: there is none."""
    kind, inputs = tensor.op.type, list(tensor.op.inputs)
    if kind in _SAME_SCALE:
        return _summed(inputs[0])
    if kind in _ADDITIONS:
        return next(filter(None, map(_summed, inputs)), 0)
    if kind == "Mul":
        of_data = [i for i in range(2) if _sizes_of_data(inputs[i])]
        if len(of_data) != 1:
            return 0
        [i] = of_data
        return _scaled(_summed(inputs[i]), inputs[1 - i], lambda factor: 1 / factor)
    if kind in _DIVISIONS and not _sizes_of_data(inputs[1]):
        return _scaled(_summed(inputs[0]), inputs[1], lambda divisor: divisor)
    if kind == "Sum":
        axes = tf.get_static_value(inputs[1])
        return 0 if axes is None else _samples(inputs[0], axes) or _summed(inputs[0])
    return 0


def _scaled(samples: int, other: Any, number_in: Callable[[float], float]) -> int:
    """0 where the other number turns a sum of so many samples into a mean, else `samples`."""
    value = tf.get_static_value(other)
    if value is None:  # where a batch has one size, it may be that size
        return min(samples, 0)
    is_number = np.size(value) == 1 and np.all(value)
    return 0 if is_number and np.isclose(number_in(np.ravel(value)[0]), samples) else samples


def _samples(tensor: Any, axes: Any) -> int:
    """How many samples lie along one of the axes: -1 where a graph does not know, 0 if none do."""
    rank = tensor.shape.rank
    if not rank or 0 not in np.reshape(axes, -1) % rank:
        return 0
    size = tensor.shape[0]
    return -1 if size is None else size if size in _sizes_of_data(tensor) else 0


def _sizes_of_data(tensor: Any) -> set[int | None]:
    """The first dimensions of the graph's inputs that lead to it.

    Weights and constants of layers are no inputs.
    """
    captured = {one.name for one in getattr(tensor.graph, "internal_captures", [])}
    waiting, seen, sizes = [tensor], set[str](), set[int | None]()
    while waiting:
        one = waiting.pop()
        if one.name in captured or one.name in seen:
            continue
        seen.add(one.name)
        if one.op.type in _DATA and one.dtype not in (tf.resource, tf.variant):
            sizes.add(one.shape[0] if one.shape.rank else None)
        waiting.extend(one.op.inputs)
    return sizes
