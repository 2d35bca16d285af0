"""Refuses gradients of a loss that is no scalar, such as one number for each sample.

A tape adds up the elements of such a loss. The mean over the peers of such sums is not the sum of
one process. Only the tape knows the loss, so it notes its shape on the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.upstream import generations


def gradient(
    original: Callable[..., Any],
    tape: Any,
    target: Any,
    sources: Any,
    output_gradients: Any = None,
    **kwargs: Any,
) -> Any:
    """`tf.GradientTape.gradient`, which notes on the gradients the shape of a non-scalar target."""
    gradients = original(tape, target, sources, output_gradients, **kwargs)
    if output_gradients is None and (shape := _shape_of_vector(target)) is not None:
        for one in tf.nest.flatten(gradients):
            if one is not None:
                one._kungfu_target_shape = shape
    return gradients


def refuse(gradients: Sequence[Any], variables: Sequence[Any]) -> None:
    """Raises an InvalidArgumentError if a gradient is that of a target that is no scalar."""
    for one, variable in zip(gradients, variables, strict=True):
        if (shape := getattr(one, "_kungfu_target_shape", None)) is not None:
            message = (
                f"the gradient of {generations.name_of(variable)!r} is that of a target of shape "
                f"{shape}, whose elements a tape adds up: the mean of the peers' sums is not the "
                "sum of a single process. Give the tape a scalar, the mean over the samples, as "
                "tf.reduce_mean(loss)"
            )
            raise errors.InvalidArgumentError(errors.linked("no-scalar", message))


def _shape_of_vector(target: Any) -> Any:
    """The shape of the first part of a target that is no scalar; None if all are scalars."""
    for part in tf.nest.flatten(target):
        shape = getattr(part, "shape", tf.TensorShape([]))
        if tf.TensorShape(shape).num_elements() != 1:
            return shape
    return None
