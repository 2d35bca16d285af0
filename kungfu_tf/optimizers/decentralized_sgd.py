"""Decentralized SGD: each peer trains a model of its own, mixed with those of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kungfu_tf import errors, peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.mixed import Mixed
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology, base_graph

Optimizer = TypeVar("Optimizer")

_STYLES = ("atc", "awc")


class DecentralizedSGD(Mixed):
    """vᵢ ← Σⱼ W[i, j]·vⱼ after the update, or before. See `DecentralizedSGDOptimizer`."""

    def __init__(self, graph: Topology, style: str) -> None:
        super().__init__(graph)
        self.style = style
        self._step: Any = None

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes the variables, in the style awc."""
        if peer.is_single_process():
            return []
        self._step = self.next_step(variables)
        return self._mix(variables) if self.style == "awc" else []

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes the variables, in the style atc."""
        if peer.is_single_process():
            return []
        return self._mix(variables) if self.style == "atc" else []

    def _mix(self, variables: Sequence[Any]) -> list[Any]:
        mine = local_variables.averaged(variables)
        return assign(mine, self.mixed(mine, self._step))


def DecentralizedSGDOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    topology: Topology | None = None,
    style: str = "atc",
    group: Group | None = None,
) -> Optimizer:
    """Makes each peer train a model of its own, mixed with its neighbours' in each step (D-PSGD).

    ```
    atc:  vᵢ ← update(vᵢ, gᵢ)           # adapt, then combine
          vᵢ ← Σⱼ W[i, j]·vⱼ
    awc:  vᵢ ← Σⱼ W[i, j]·vⱼ            # adapt while combining
          vᵢ ← update(vᵢ, gᵢ)           # gᵢ: at the vᵢ before
    ```

    W is the topology's matrix for the step. Steps count from 0, also after a resize. Parts of a
    model that are updated in turn, such as those of a GAN, have a count each.

    A peer sends its model to each of its neighbours, and waits for theirs only. The default
    topology has one neighbour in each step; the mean of any number of peers is exact after a few
    steps of it. A step takes one way of messages, where an all-reduce takes at least two. It does
    not send fewer bytes than an all-reduce.

    "atc" comes a little nearer to the solution of one process. Models of peers whose data are alike
    train as well as with `SynchronousSGDOptimizer`. If each peer has other classes, they do not:
    the models keep a distance that is proportional to the learning rate.

    The peers' models differ: evaluate and save their average, which `average_variables` computes.
    `fit` does so by itself, and leaves the average in the model. In `fit` peers may have different
    numbers of batches: a peer that has run out continues mixing, with zero gradients. Each peer
    keeps its own optimizer state.

    It cannot be used with `kungfu-run -on-failure survive`.

    Source: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS
    2017; the default topology is that of Takezawa et al., NeurIPS 2023.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        topology: Who mixes with whom, the same on all peers; default `kf.topology.base_graph()`.
            Its matrices must be doubly stochastic, and connect all peers.
        style: "atc" mixes after the update, "awc" before.
        group: As for `SynchronousSGDOptimizer`. The topology is that of its members then, and
            counts their ranks in the group.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer.
        ValueError: If it is wrapped already, or there is no such style.
        InvalidArgumentError: In the first step, if the topology makes no means.

    Example:

    ```python
    optimizer = kf.optimizers.DecentralizedSGDOptimizer(
        keras.optimizers.SGD(0.1), topology=kf.topology.exponential()
    )
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    if style not in _STYLES:
        raise errors.InvalidArgumentError(f"style {style!r} is none of {', '.join(_STYLES)}")
    graph = base_graph() if topology is None else topology
    return wrap(optimizer, lambda: DecentralizedSGD(graph, style), group=group)
