"""Gradient tracking: neighbours mix models, and what they know of the mean gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.mixed import Mixed
from kungfu_tf.exchange.remembered import Remembered
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology, base_graph
from kungfu_tf.topology.checks import check_argument

Optimizer = TypeVar("Optimizer")


class GradientTracking(Mixed):
    """yᵢ ← Σⱼ W[i, j]·yⱼ + gᵢ − gᵢ of before. See `GradientTrackingOptimizer`."""

    works_in_graphs = False

    def __init__(self, graph: Topology) -> None:
        super().__init__(graph)
        self._trackers = Remembered("gradient_tracking/tracker")  # mixed already
        self._before = Remembered("gradient_tracking/before")
        self._noted: dict[Any, tuple[Any, Any]] = {}  # of the update that is being made: g and y

    def before_training(self) -> None:
        """Begins anew: y is each peer's gradient."""
        self._trackers.forget()
        self._before.forget()

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the tracked ones. Nothing is remembered before the update is made."""
        own = super().gradients(gradients, variables, step=step)
        if peer.is_single_process():
            return own
        followed = {v.ref() for v in local_variables.averaged(variables)}
        self._noted = {}
        return [
            self._tracked(g, v) if g is not None and v.ref() in followed else g
            for g, v in zip(own, variables, strict=True)
        ]

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes variables and trackers, in one operation."""
        if peer.is_single_process():
            return []
        mine = [v for v in local_variables.averaged(variables) if v.ref() in self._noted]
        noted = [self._noted[v.ref()] for v in mine]
        values = [*(v.read_value() for v in mine), *(y for _, y in noted)]
        mixed = self.mixed(values, self.next_step(mine))
        targets = [*mine, *self._trackers.of(mine), *self._before.of(mine)]
        return assign(targets, [*mixed, *(g for g, _ in noted)])

    def _tracked(self, gradient: Any, variable: Any) -> Any:
        [tracker], [before] = self._trackers.of([variable]), self._before.of([variable])
        dense = tf.cast(tf.convert_to_tensor(gradient), tracker.dtype)
        tracked = tracker.read_value() + dense - before.read_value()
        self._noted[variable.ref()] = dense, tracked
        return tracked


def GradientTrackingOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer, *, topology: Topology | None = None, group: Group | None = None
) -> Optimizer:
    """Makes each peer follow the mean gradient of all, while it talks to its neighbours only.

    ```
    yᵢ ← Σⱼ W[i, j]·yⱼ + gᵢ − (gᵢ of the step before)      # in the first step yᵢ ← gᵢ
    vᵢ ← Σⱼ W[i, j]·update(vⱼ, yⱼ)
    ```

    y has the mean of all peers' gradients as its mean, and each peer's y comes close to it. So the
    models come to the solution itself, also if peers have different data, where gradients are exact
    and the loss is convex. With `DecentralizedSGDOptimizer` they keep a distance that is
    proportional to the learning rate. Where peers have data of the same kind, as
    `kungfu_tf.data.shard` deals them out, nothing is gained.

    It sends twice as much as `DecentralizedSGDOptimizer`, in one operation, and remembers two
    tensors for each variable. It is for plain SGD: of Adam or clipping nothing is known. Sparse
    rows become dense. As there, `fit` validates, saves and ends with the average, and a peer
    without batches continues with zero gradients. What is remembered begins anew with each `fit`.
    In a loop of your own call `optimizer.kungfu_algorithm.before_training()` on all peers after a
    resize.

    It cannot be used with `kungfu-run -on-failure survive`.

    Source: Nedić et al., "Achieving Geometric Convergence for Distributed Optimization over
    Time-Varying Graphs", SIAM Journal on Optimization 2017.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        topology: Who mixes with whom, as for `DecentralizedSGDOptimizer`.
        group: As for `DecentralizedSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or `topology` not a topology.
        ValueError: If it is wrapped already.
        InvalidArgumentError: In the first step, if the topology makes no means.
        UnimplementedError: In a TF1 graph.

    Example:

    ```python
    optimizer = kf.optimizers.GradientTrackingOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    graph = base_graph() if topology is None else topology
    check_argument("topology", graph)
    return wrap(optimizer, lambda: GradientTracking(graph), group=group)
