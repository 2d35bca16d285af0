"""Finds `add_loss` of a sum over the samples of a batch, which `fit` on several peers averages.

The sum is looked for in the graph of the train step. It counts if nothing on its way to the loss
divides it by the number of samples, or by a number that depends on the batch.
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
    """Keras' method. Rank 0 warns of a sum, once in a `fit` that all peers share."""
    losses = tf.nest.flatten(args[0] if args else list(kwargs.values())[:1])
    fit = current()
    if (
        fit is not None
        and fit.is_shared
        and not fit.has_warned_of_sum
        and not peer.is_single_process()
    ):
        fit.has_warned_of_sum = any(map(adds_up_samples, losses))
        if fit.has_warned_of_sum and peer.is_root():
            warn(
                f"layer '{layer.name}': add_loss of a sum over the samples of a batch, while "
                "gradients are averaged over the peers as if it were a mean: a step is not the one "
                "that a single process takes. Divide it by the number of samples, as "
                "keras.ops.mean does"
            )
    return original(layer, *args, **kwargs)


def adds_up_samples(loss: Any) -> bool:
    """Whether a tensor of a graph is, or contains, a sum over samples. False if in doubt.

    Args:
        loss: The argument of `add_loss`. Keras adds up its elements if it is no scalar.
    """
    if not isinstance(loss, tf.Tensor) or not isinstance(getattr(loss, "graph", None), tf.Graph):
        return False
    return _samples(loss, [0]) != 0 or _summed(loss) != 0


def _summed(tensor: Any) -> int:
    """How many samples a tensor adds up; -1 if the graph does not know; 0 if it adds up none."""
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
    """What a product or quotient adds up: 0 if the other operand makes a mean of the sum.

    Args:
        samples: How many samples the sum has.
        other: The other operand.
        number_in: Gives the number of samples by which it divides.
    """
    value = tf.get_static_value(other)
    if value is None:  # it may be the size of the batch, where that is known
        return min(samples, 0)
    is_number = np.size(value) == 1 and np.all(value)
    return 0 if is_number and np.isclose(number_in(np.ravel(value)[0]), samples) else samples


def _samples(tensor: Any, axes: Any) -> int:
    """How many samples lie along the axes; -1 if the graph does not know, 0 if there are none."""
    rank = tensor.shape.rank
    if not rank or 0 not in np.reshape(axes, -1) % rank:
        return 0
    size = tensor.shape[0]
    return -1 if size is None else size if size in _sizes_of_data(tensor) else 0


def _sizes_of_data(tensor: Any) -> set[int | None]:
    """The first dimensions of the inputs of the graph that the tensor is computed from.

    Weights and constants of layers do not count.
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
