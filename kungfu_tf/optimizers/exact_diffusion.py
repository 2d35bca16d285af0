"""Exact diffusion: neighbours mix models that come to one solution, whatever data they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kungfu_tf import errors, peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.mixed import Mixed
from kungfu_tf.exchange.remembered import Remembered
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology, symmetric_exponential
from kungfu_tf.topology.checks import check_argument

Optimizer = TypeVar("Optimizer")


class ExactDiffusion(Mixed):
    """φᵢ ← ψᵢ + vᵢ − ψᵢ of before; vᵢ ← ½(φᵢ + Σⱼ W[i, j]·φⱼ). See `ExactDiffusionOptimizer`."""

    needs_symmetric = True

    def __init__(self, graph: Topology) -> None:
        super().__init__(graph)
        self._corrections = Remembered("exact_diffusion/correction")  # v − ψ of the step before

    def before_training(self) -> None:
        """Begins anew: each peer's model is where it is."""
        self._corrections.forget()

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Corrects the variables, and mixes them."""
        if peer.is_single_process():
            return []
        mine = local_variables.averaged(variables)
        if (steps := self.topology.length(peer.size())) > 1:
            raise errors.InvalidArgumentError(
                f"ExactDiffusionOptimizer: {self.topology} has {steps} matrices, and the method "
                "needs one that stays. Take GradientTrackingOptimizer"
            )
        corrections = self._corrections.of(mine)
        updated = [v.read_value() for v in mine]
        corrected = [u + c.read_value() for u, c in zip(updated, corrections, strict=True)]
        sums = self.mixed(corrected, 0)
        values = [(a + b) / 2 for a, b in zip(corrected, sums, strict=True)]
        moved = [value - u for value, u in zip(values, updated, strict=True)]
        return assign([*mine, *corrections], [*values, *moved])


def ExactDiffusionOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer, *, topology: Topology | None = None, group: Group | None = None
) -> Optimizer:
    """Makes each peer mix its model with its neighbours', without the bias of different data (D²).

    ```
    ψᵢ ← update(vᵢ, gᵢ)
    φᵢ ← ψᵢ + vᵢ − (ψᵢ of the step before)      # in the first step φᵢ ← ψᵢ
    vᵢ ← ½(φᵢ + Σⱼ W[i, j]·φⱼ)
    ```

    With `DecentralizedSGDOptimizer` models keep a distance from the solution that is proportional
    to the learning rate, if peers have different data. Here they come to the solution itself, where
    gradients are exact and the loss is convex. Where peers have data of the same kind, as
    `kungfu_tf.data.shard` deals them out, nothing is gained.

    It sends as much as `DecentralizedSGDOptimizer`, and remembers a tensor for each variable. It is
    for plain SGD: momentum has no place in its derivation. As there, `fit` validates, saves and
    ends with the average, and a peer without batches continues with zero gradients. What is
    remembered begins anew with each `fit`. In a loop of your own call
    `optimizer.kungfu_algorithm.before_training()` on all peers after a resize.

    It cannot be used with `kungfu-run -on-failure survive`.

    Sources: Yuan et al., "Exact Diffusion for Distributed Optimization and Learning", IEEE TSP
    2019; Tang et al., "D²: Decentralized Training over Decentralized Data", ICML 2018.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        topology: Who mixes with whom, the same on all peers; default
            `kf.topology.symmetric_exponential()`. It must have one matrix, which is symmetric and
            doubly stochastic, and connect all peers.
        group: As for `DecentralizedSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or `topology` not a topology.
        ValueError: If it is wrapped already.
        InvalidArgumentError: In the first step, if the topology is not such a one.

    Example:

    ```python
    optimizer = kf.optimizers.ExactDiffusionOptimizer(
        keras.optimizers.SGD(0.1), topology=kf.topology.ring()
    )
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    graph = symmetric_exponential() if topology is None else topology
    check_argument("topology", graph)
    return wrap(optimizer, lambda: ExactDiffusion(graph), group=group)
