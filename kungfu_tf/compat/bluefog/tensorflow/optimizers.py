"""BlueFog's optimizer and tape, which average gradients over all processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.ops import group

__all__ = ["DistributedGradientTape", "DistributedOptimizer", "broadcast_variables"]


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> Any:
    """Gives all processes the variables of one of them; in a graph, the operation that does so."""
    values = group.group_broadcast(variables, root=root_rank)
    return tf.group(*[v.assign(value) for v, value in zip(variables, values, strict=True)])


def DistributedOptimizer(  # noqa: N802 (BlueFog's)
    optimizer: Any, name: str | None = None, use_locking: bool = False, device: str = ""
) -> Any:
    """Lets an optimizer use the mean gradients. Those of Keras are there, too.

    Raises:
        ValueError: If it is no optimizer.
    """
    del name, use_locking, device
    try:
        return kf.optimizers.SynchronousSGDOptimizer(optimizer)
    except TypeError as error:
        raise ValueError(str(error)) from error


def DistributedGradientTape(gradtape: Any, device: str = "") -> Any:  # noqa: N802
    """A tape whose gradients are the means of all processes."""
    del device
    return kf.DistributedGradientTape(gradtape)
