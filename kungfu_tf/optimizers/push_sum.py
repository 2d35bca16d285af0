"""Push-sum: neighbours mix models over links of one direction, without favouring a peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.mixed import Mixed
from kungfu_tf.exchange.remembered import Remembered
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.ops.scaling import times
from kungfu_tf.optimizers.asynchronous_push_sum import AsynchronousPushSum
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology
from kungfu_tf.topology.checks import check_argument

Optimizer = TypeVar("Optimizer")


class PushSum(Mixed):
    """zᵢ ← Σⱼ W[i, j]·zⱼ, wᵢ ← Σⱼ W[i, j]·wⱼ, vᵢ = zᵢ / wᵢ. See `PushSumOptimizer`."""

    needs_rows = False
    works_in_graphs = False

    def __init__(self, graph: Topology) -> None:
        super().__init__(graph)
        self._excess = Remembered("push_sum/excess", is_number=True)  # w − 1
        self._starts: list[Any] = []  # of the update that is being made

    def before_training(self) -> None:
        """Begins anew: all peers count alike."""
        self._excess.forget()

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Remembers where the update starts: copies, as it may change variables in place."""
        if peer.is_single_process():
            return []
        self._starts = [
            tf.raw_ops.DeepCopy(x=v.read_value()) for v in local_variables.averaged(variables)
        ]
        return self._starts

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Adds the update to z, and mixes."""
        if peer.is_single_process():
            return []
        mine = local_variables.averaged(variables)
        excess = self._excess.of(mine)
        weights = 1 + tf.stack([e.read_value() for e in excess])
        sums = [
            times(start, weight) + v.read_value() - start
            for v, start, weight in zip(mine, self._starts, tf.unstack(weights), strict=True)
        ]
        *mixed, weights = self.mixed([*sums, weights], self.next_step(mine))
        weights = tf.unstack(tf.ensure_shape(weights, [len(mine)]))
        values = [times(z, 1 / weight) for z, weight in zip(mixed, weights, strict=True)]
        return assign([*mine, *excess], [*values, *(weight - 1 for weight in weights)])

    def evaluated(self, variable: Any) -> Any:
        """Σ z / Σ w over the peers."""
        if peer.is_single_process():
            return variable.read_value()
        [excess] = self._excess.of([variable])
        z = times(variable.read_value(), 1 + excess.read_value())
        return ops.all_reduce(z, op="mean", name=f"{self.name}/evaluated")


def PushSumOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    topology: Topology,
    asynchronous: bool = False,
    group: Group | None = None,
) -> Optimizer:
    """Makes each peer mix its model with its neighbours' where links have a direction (SGP).

    ```
    zᵢ ← zᵢ + update(vᵢ, gᵢ) − vᵢ
    zᵢ ← Σⱼ W[i, j]·zⱼ
    wᵢ ← Σⱼ W[i, j]·wⱼ                  # 1 at first
    vᵢ ← zᵢ / wᵢ
    ```

    Each peer deals out what it has: the columns of W add up to 1, and its rows need not. So a peer
    may send to others that it takes nothing of. `DecentralizedSGDOptimizer` needs both, and with
    rows alone it would come to a solution that favours some peers, whatever the learning rate. The
    weights w take that away. What is left is as there: a distance from the solution that is
    proportional to the learning rate, if peers have different data.

    It sends the model and 8 bytes for each variable. The model to evaluate and to save is
    Σ z / Σ w, which `fit` and `average_variables` compute. Each peer keeps its own optimizer state.
    In `fit` a peer without batches continues with zero gradients. The weights begin anew with each
    `fit`. In a loop of your own give all peers the average after a resize, and call
    `optimizer.kungfu_algorithm.before_training()`.

    With `asynchronous=True` no peer waits for another one. Each leaves W[j, i]·(zᵢ, wᵢ) for rank j
    in a window (`kf.ops.new_window`), and adds up what others have left for it. While its w is
    below 1/2 it leaves nothing: otherwise the updates of a fast peer would move v too far. In `fit`
    each peer makes as many steps as it has batches. What is under way at the end of an epoch is
    added then, so nothing gets lost. The peers and the strategy must stay the same. In a loop of
    your own call `optimizer.kungfu_algorithm.settle()` on all peers before you evaluate.

    It cannot be used with `kungfu-run -on-failure survive`.

    Sources: Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019;
    Assran and Rabbat, "Asynchronous Gradient Push", IEEE Transactions on Automatic Control, 2021.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        topology: Who sends to whom, the same on all peers. The columns of its matrices must add up
            to 1, and it must connect all peers.
        asynchronous: Whether each peer makes its steps at its own pace.
        group: As for `DecentralizedSGDOptimizer`. Not with `asynchronous`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or `topology` not a topology.
        ValueError: If it is wrapped already.
        InvalidArgumentError: In the first step, if a column does not add up to 1; or if there are
            both `asynchronous` and a group.
        UnimplementedError: In a TF1 graph.

    Example:

    ```python
    sends = kf.topology.from_matrix([[0.5, 0.0, 0.5], [0.25, 0.5, 0.0], [0.25, 0.5, 0.5]])
    optimizer = kf.optimizers.PushSumOptimizer(keras.optimizers.SGD(0.1), topology=sends)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_argument("topology", topology)
    if asynchronous and group is not None:
        raise errors.InvalidArgumentError("PushSumOptimizer: asynchronous is not for groups")
    method = AsynchronousPushSum if asynchronous else PushSum
    return wrap(optimizer, lambda: method(topology), group=group)
