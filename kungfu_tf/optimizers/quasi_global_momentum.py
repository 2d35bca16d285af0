"""Quasi-global momentum: neighbours mix models, and each follows where the mixed model went."""

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


class QuasiGlobalMomentum(Mixed):
    """vᵢ ← Σⱼ W[i, j]·(ψⱼ + μ·mⱼ), where m is where v went. See `QuasiGlobalMomentumOptimizer`."""

    def __init__(self, graph: Topology, momentum: float) -> None:
        super().__init__(graph)
        self.momentum = momentum
        self._movements = Remembered("quasi_global_momentum/movement")
        self._before: list[Any] = []  # the values before the update that is being made

    def before_training(self) -> None:
        """Begins anew: nothing has moved."""
        self._movements.forget()

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Reads the variables: copies in a TF1 graph, whose updates may change them in place."""
        before = [v.read_value() for v in local_variables.averaged(variables)]
        if not tf.compat.v1.executing_eagerly_outside_functions():
            before = [tf.raw_ops.DeepCopy(x=value) for value in before]
        self._before = before
        return before

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Moves the variables on, mixes them, and remembers where they went."""
        mine = local_variables.averaged(variables)
        movements = self._movements.of(mine)
        moved_on = [self.momentum * m.read_value() for m in movements]
        values = [v.read_value() + m for v, m in zip(mine, moved_on, strict=True)]
        mixed = values if peer.is_single_process() else self.mixed(values, self.next_step(mine))
        changes = [new - old for new, old in zip(mixed, self._before, strict=True)]
        new = [m + (1 - self.momentum) * c for m, c in zip(moved_on, changes, strict=True)]
        return assign([*mine, *movements], [*mixed, *new])


def QuasiGlobalMomentumOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    momentum: float = 0.9,
    topology: Topology | None = None,
    group: Group | None = None,
) -> Optimizer:
    """Makes each peer mix its model with its neighbours', with a momentum that all come to share.

    ```
    ψᵢ ← update(vᵢ, gᵢ)
    uᵢ ← Σⱼ W[i, j]·(ψⱼ + μ·mⱼ)
    mᵢ ← μ·mᵢ + (1 − μ)·(uᵢ − vᵢ)       # at first mᵢ = 0
    vᵢ ← uᵢ
    ```

    If peers have different data, an optimizer's own momentum pulls each model where its peer's
    gradients point, and models keep a distance from the solution that is 1/(1 − μ) times that of
    plain SGD. Here momentum is where the mixed model went, nearly the same on all peers. The
    training is as fast, and the distance that of `DecentralizedSGDOptimizer` with plain SGD, which
    is proportional to the learning rate. Where peers have data of the same kind, as
    `kungfu_tf.data.shard` deals them out, nothing is gained.

    It sends as much as `DecentralizedSGDOptimizer`, and remembers a tensor for each variable. It is
    for plain SGD, without momentum of its own. m is in units of the weights, as Keras' SGD keeps
    its momentum: with a constant learning rate that is the paper's method. One peer alone has the
    momentum, too; variables of `kungfu_tf.layers.local` have none.

    As with `DecentralizedSGDOptimizer`, `fit` validates, saves and ends with the average, and a
    peer without batches continues with zero gradients. What is remembered begins anew with each
    `fit`. In a loop of your own call `optimizer.kungfu_algorithm.before_training()` on all peers
    after a resize.

    It cannot be used with `kungfu-run -on-failure survive`.

    Source: Lin et al., "Quasi-Global Momentum: Accelerating Decentralized Deep Learning on
    Heterogeneous Data", ICML 2021.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        momentum: μ, a number from 0 to below 1. With 0 it is `DecentralizedSGDOptimizer`.
        topology: Who mixes with whom, as for `DecentralizedSGDOptimizer`.
        group: As for `DecentralizedSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, `topology` not a topology, or `momentum`
            not a number.
        ValueError: If it is wrapped already, or `momentum` is out of range.
        InvalidArgumentError: In the first step, if the topology makes no means.

    Example:

    ```python
    optimizer = kf.optimizers.QuasiGlobalMomentumOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)):
        raise TypeError(f"momentum is a number, not {momentum!r}")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be from 0 to below 1, and is {momentum}")
    graph = base_graph() if topology is None else topology
    check_argument("topology", graph)
    return wrap(optimizer, lambda: QuasiGlobalMomentum(graph, float(momentum)), group=group)
