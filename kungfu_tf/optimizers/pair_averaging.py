"""Pair averaging: each peer trains a model, which it averages with one other peer's at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.ops import store

Optimizer = TypeVar("Optimizer")


def random_partner(step: Any) -> Any:
    """The rank of another peer, each as likely; a function of the step and of this peer's rank."""
    rank, size = ops.peer_info()
    seed = tf.stack([tf.cast(step, tf.int64), tf.cast(rank, tf.int64)])
    most = tf.maximum(size, 2)  # a peer of one, to which others may come, asks itself
    shift = tf.random.stateless_uniform([], seed, minval=1, maxval=most, dtype=tf.int32)
    return (rank + shift) % size


class PairAveraging(Algorithm):
    """v ← ½·(v + another peer's v), then the local gradient. `PairAveragingOptimizer` says all.

    Args:
        fuse_requests: Whether all variables of a dtype travel together.
        partner: Returns, for the number of a step, the rank to ask: whom a peer averages with.
        lockstep: Each step asks for the partner's model of the same step, and waits for it. The
            result is then a function of the data, for tests. KUNGFU_STORE_VERSIONS says how many
            steps a peer may be ahead.
    """

    is_synchronous = False

    def __init__(
        self,
        fuse_requests: bool = True,
        partner: Callable[[Any], Any] = random_partner,
        lockstep: bool = False,
    ) -> None:
        self.fuse_requests = fuse_requests
        self.partner = partner
        self.lockstep = lockstep
        self._updated: dict[Any, int] = {}  # by the variables of an update, its number

    def before_training(self) -> None:
        """Forgets the models of an earlier training: this peer's, and its requests."""
        if "ordinal" in vars(self) and not peer.is_single_process():
            store.forget(f"{self.name}/model/")

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Averages with what came while the gradients were computed."""
        if peer.is_single_process():
            return []
        assigned = []
        for tag, group in self._blobs(variables):
            mine = [v.read_value() for v in group]
            theirs, _ = store.prefetched(mine, tag)
            averages = [(own + other) / 2 for own, other in zip(mine, theirs, strict=True)]
            with tf.control_dependencies(averages):
                assigned += [v.assign(a) for v, a in zip(group, averages, strict=True)]
        return assigned

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Publishes the model, and asks for the next partner's without waiting."""
        if peer.is_single_process():
            return []
        asked = []
        partner = None
        for tag, group in self._blobs(variables):
            values = [v.read_value() for v in group]
            step = store.save_group(values, tag, keep=0 if self.lockstep else 1)
            partner = self.partner(step) if partner is None else partner
            specs = [tf.TensorSpec(v.shape, v.dtype) for v in values]
            version = step if self.lockstep else None
            with tf.control_dependencies([step]):
                asked.append(
                    store.prefetch(partner, specs, tag, version, wait=self.lockstep),
                )
        return asked

    def _blobs(self, variables: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
        """The variables that are published together, by name."""
        key = tuple(v.ref() for v in variables)
        name = f"{self.name}/model/{self._updated.setdefault(key, len(self._updated))}"
        if not self.fuse_requests:
            yield from ((f"{name}/{i}", [v]) for i, v in enumerate(variables))
            return
        groups: dict[Any, list[Any]] = {}
        for v in variables:
            groups.setdefault(v.dtype.base_dtype, []).append(v)
        yield from ((f"{name}/{dtype.name}", group) for dtype, group in groups.items())


def PairAveragingOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer, *, fuse_requests: bool = True
) -> Optimizer:
    """Makes an optimizer train a model of each peer's own, averaged with one other peer at a time.

    ```
    u ← model of a random other peer     # its newest; asked for when the step before has ended
    v ← (v + u) / 2
    v ← update(v, g)                     # g: of this peer's batch, at the v of before
    publish v
    ```

    No peer waits for a straggler. A published model is served while its owner computes, or is idle,
    and it travels while this peer computes its gradients. If the other peer has not published yet,
    or has ended in order, this peer makes that step on its own model. A request to a crashed peer
    is an error. The cost is one model per peer and step, with any number of peers, and two copies
    of it in memory.

    Peers differ: evaluate and save what `average_variables` makes of them. `fit` does so by itself,
    and ends with the average in the model. In `fit` peers take as many steps as they have batches:
    they are not evened, and gradients are not weighed. All meet at the epoch's end, where the first
    waits for KUNGFU_COLLECTIVE_TIMEOUT at most. Callbacks that stop training do so there, and one
    that saves in the middle of an epoch saves rank 0's own model. Optimizer state is each peer's
    own.

    In `kungfu_tf.elastic.fit` and with a `kungfu_tf.hooks.ElasticHook` peers may come and go. Each
    changes over between two steps of its own, and all continue from the average of all models.
    There a peer whose share of an epoch has a batch less makes a step with gradients of zero.

    Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
    2018; that the model is pulled ahead of time, KungFu (Mai et al., OSDI 2020).

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        fuse_requests: Whether all variables of a dtype travel together. If not, each variable is
            requested separately, and may be of another step of the other peer.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer.
        ValueError: If it is wrapped already.

    Example:

    ```python
    optimizer = kf.optimizers.PairAveragingOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    return wrap(optimizer, lambda: PairAveraging(fuse_requests))
