"""Adasum: updates of all peers, of which nothing counts twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.own_gradients import OwnGradients
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import local_variables

Optimizer = TypeVar("Optimizer")


class Adasum(OwnGradients):
    """v ← v₀ + Adasum over peers of (v − v₀). See `AdasumOptimizer`."""

    def __init__(self) -> None:
        self._starts: list[Any] = []  # of the update that is being made

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Remembers where the update starts: copies, as it may change variables in place."""
        if peer.is_single_process():
            return []
        self._starts = [
            tf.raw_ops.DeepCopy(x=v.read_value()) for v in local_variables.averaged(variables)
        ]
        return self._starts

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Replaces this peer's update by that of all."""
        if peer.is_single_process():
            return []
        shared, starts = local_variables.averaged(variables), self._starts
        moved = [v.read_value() - start for v, start in zip(shared, starts, strict=True)]
        updates = ops.group_adasum(moved, name=f"{self.name}/updates")
        return assign(shared, [a + b for a, b in zip(starts, updates, strict=True)])

    def evaluated(self, variable: Any) -> Any:
        """The variable, which is the same on all peers."""
        return variable.read_value()


def AdasumOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer, *, group: Group | None = None
) -> Optimizer:
    """Makes each peer update alone, and then gives all of them the Adasum of their updates.

    ```
    v₀ ← v
    v ← update(v, g)                                # g: of this peer's batch
    v ← v₀ + Adasum over peers of (v − v₀)
    ```

    Updates that are orthogonal are added, equal ones averaged (`kungfu_tf.ops.adasum`). So the
    learning rate of one process may stay as it is while peers are added. It takes more steps of
    messages than `SynchronousSGDOptimizer`, log₂(size), each as large as the model, and memory for
    another copy of it.

    All peers hold equal weights after every update. The optimizer's own state (its slots) is each
    peer's own. In `fit` peers may have different numbers of batches: one that has run out continues
    with zero gradients.

    Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer.
        ValueError: If it is wrapped already.
        FailedPreconditionError: In a step, if the job survives lost peers.

    Example:

    ```python
    optimizer = kf.optimizers.AdasumOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    return wrap(optimizer, Adasum, group=group)
