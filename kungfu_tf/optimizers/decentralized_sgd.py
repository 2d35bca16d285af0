"""Decentralized SGD: each peer trains a model of its own, mixed with those of its neighbours."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import errors, groups, peer
from kungfu_tf.exchange.ahead import Ahead
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.gossip import Gossip
from kungfu_tf.exchange.mixed import Mixed
from kungfu_tf.exchange.periodic import Periodic
from kungfu_tf.exchange.schedule import Schedule, check_steps
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology, base_graph
from kungfu_tf.topology.checks import check_argument

Optimizer = TypeVar("Optimizer")

_STYLES = ("atc", "awc")


class DecentralizedSGD(Mixed):
    """vᵢ ← Σⱼ W[i, j]·vⱼ after the update, or before. See `DecentralizedSGDOptimizer`."""

    def __init__(self, graph: Topology, style: str, *, overlap: bool = False) -> None:
        super().__init__(graph)
        self.style = style
        self.works_in_graphs = not overlap
        self._ahead = Ahead(graph) if overlap else None
        self._step: Any = None

    def before_training(self) -> None:
        """Drops what an earlier training has begun and not ended."""
        if self._ahead and "ordinal" in vars(self):
            with groups.among(self.group):
                self._ahead.drop(self.name)

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes the variables, in the style awc; or has them mixed already."""
        if peer.is_single_process():
            return []
        self._step = self.next_step(variables)
        if self.style == "atc":
            return []
        mine = local_variables.averaged(variables)
        if self._ahead is None:
            return self._mix(mine)
        values = self._ahead.mixed(mine, self.name, lambda: self.mixed(mine, self._step))
        return assign(mine, values)

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes the variables, in the style atc; or begins to, for the next update."""
        if peer.is_single_process():
            return []
        mine = local_variables.averaged(variables)
        if self._ahead is not None:
            self._ahead.begin(mine, self.name, self._step + 1)
        return self._mix(mine) if self.style == "atc" else []

    def settle(self) -> None:
        """Waits for what is under way. The next update mixes what the variables have then."""
        if self._ahead is not None and not peer.is_single_process():
            with groups.among(self.group):
                self._ahead.settle(self.name)

    def finish(self) -> None:
        """As `settle`."""
        self.settle()

    def _mix(self, mine: Sequence[Any]) -> list[Any]:
        return assign(mine, self.mixed(mine, self._step))


class PeriodicDecentralizedSGD(Periodic):
    """vᵢ ← Σⱼ W[i, j]·vⱼ after every `every` steps. See `DecentralizedSGDOptimizer`."""

    title = "DecentralizedSGDOptimizer(every=...)"

    def __init__(self, graph: Topology, every: int) -> None:
        super().__init__(Schedule(every))
        self._gossip = Gossip(graph)

    @functools.cached_property
    def state(self) -> tf.Module:
        """The counters of steps and meetings."""
        state = super().state
        state.meetings = self._gossip.meetings
        return state

    def after_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Mixes the variables if it is time."""
        return [] if peer.is_single_process() else super().after_step(variables)

    def meet(self, variables: Sequence[Any], samples: Any) -> list[Any]:
        """Returns the weighted sums, whatever the samples."""
        del samples
        mixed = self._gossip.mixed(variables, f"{self.name}/model")
        return [tf.cast(m, v.dtype.base_dtype) for m, v in zip(mixed, variables, strict=True)]


def DecentralizedSGDOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    topology: Topology | None = None,
    style: str = "atc",
    every: int = 1,
    overlap: bool = False,
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

    With `every` the models are mixed after that many steps, and nothing is sent between. W is then
    the matrix for the meeting. Meetings count from 0, with that at the end of `fit`. Numbers of
    batches, callbacks that stop, steps without an update and what `fit` asks in each step are as
    described at `LocalSGDOptimizer`.

    It cannot be used with `kungfu-run -on-failure survive`.

    Source: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS
    2017; the default topology is that of Takezawa et al., NeurIPS 2023.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        topology: Who mixes with whom, the same on all peers; default `kf.topology.base_graph()`.
            Its matrices must be doubly stochastic, and connect all peers.
        style: "atc" mixes after the update, "awc" before.
        every: The number of steps between two mixings, an integer from 1; more than 1 with "atc".
        overlap: Whether the mixing before an update begins right after the last one, and travels
            while gradients are computed. It is for the style "awc", whose models it does not
            change. Default: False. In a loop of your own, call
            `optimizer.kungfu_algorithm.finish()` on all peers at its end, and whenever you have
            assigned other values to variables. It is not for graphs of TF1.
        group: As for `SynchronousSGDOptimizer`. The topology is that of its members then, and
            counts their ranks in the group.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, `topology` not a topology, or `every` not an
            integer.
        ValueError: If it is wrapped already, there is no such style, it does not overlap, or
            `every` is less than 1, or more with "awc".
        InvalidArgumentError: When it first mixes, if the topology makes no means.
        UnimplementedError: With `overlap`, in a TF1 graph; or with `every`, in a step that has
            other variables than the first.

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
    if overlap and style != "awc":
        raise errors.InvalidArgumentError(f"overlap is for style 'awc', not for {style!r}")
    check_steps("every", every, least=1)
    if every > 1 and style != "atc":
        raise errors.InvalidArgumentError(f"every is for style 'atc', not for {style!r}")
    graph = base_graph() if topology is None else topology
    check_argument("topology", graph)

    def make() -> Algorithm:
        if every > 1:
            return PeriodicDecentralizedSGD(graph, every)
        return DecentralizedSGD(graph, style, overlap=overlap)

    return wrap(optimizer, make, group=group)
