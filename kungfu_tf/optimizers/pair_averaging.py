"""Pair averaging: each peer trains a model of its own, averaged with one other at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.ops import store

Optimizer = TypeVar("Optimizer")


def random_partner(step: Any) -> Any:
    """The rank of another peer, uniformly random: a function of the step and this peer's rank.

    In a step all peers take the one that is as many ranks further. So where they are in step each
    serves one other, and none has to send its model many times.
    """
    rank, size = ops.peer_info()
    seed = tf.stack([tf.cast(step, tf.int64), tf.constant(0, tf.int64)])
    most = tf.maximum(size, 2)  # one peer alone, which others may join, asks itself
    shift = tf.random.stateless_uniform([], seed, minval=1, maxval=most, dtype=tf.int32)
    return (rank + shift) % size


class PairAveraging(Algorithm):
    """v ← ½·(v + another peer's v), then the local gradient. See `PairAveragingOptimizer`.

    Args:
        fuse_requests: Whether all variables of a dtype travel together.
        partner: Maps the number of a step to the rank of the peer to average with.
        lockstep: For tests: each step waits for the partner's model of the same step, so that the
            result depends on the data alone. KUNGFU_STORE_VERSIONS limits how many steps a peer may
            be ahead.
    """

    meets = Meets.NEVER

    def __init__(
        self,
        fuse_requests: bool = True,
        partner: Callable[[Any], Any] = random_partner,
        lockstep: bool = False,
    ) -> None:
        self.fuse_requests = fuse_requests
        self.partner = partner
        self.lockstep = lockstep
        self._updated: dict[Any, int] = {}  # the number of each update, by its variables

    def before_training(self) -> None:
        """Forgets this peer's models and requests of an earlier training."""
        if "ordinal" in vars(self) and not peer.is_single_process():
            store.forget(f"{self._title}/")

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Averages with the model that arrived while the gradients were computed."""
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
        """Publishes the model, and requests the next partner's without waiting for it."""
        if peer.is_single_process():
            return []
        requests = []
        partner = None
        for tag, group in self._blobs(variables):
            values = [v.read_value() for v in group]
            step = store.save_group(values, tag, keep=0 if self.lockstep else 1)
            partner = self._rank_of(self.partner(step)) if partner is None else partner
            specs = [tf.TensorSpec(v.shape, v.dtype) for v in values]
            version = step if self.lockstep else None
            with tf.control_dependencies([step]):
                requests.append(store.prefetch(partner, specs, tag, version, wait=self.lockstep))
        return requests

    @property
    def _title(self) -> str:
        """The prefix of the names by which other peers request this peer's models."""
        of_group = "" if self.group is None else f"group {self.group.number}/"
        return f"{of_group}{self.name}/model"

    def _rank_of(self, partner: Any) -> Any:
        """The rank among all peers of a rank of the group."""
        return partner if self.group is None else tf.gather(self.group.ranks, partner)

    def _blobs(self, variables: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
        """The variables that are published together, each group with its name."""
        key = tuple(v.ref() for v in variables)
        name = f"{self._title}/{self._updated.setdefault(key, len(self._updated))}"
        if not self.fuse_requests:
            yield from ((f"{name}/{i}", [v]) for i, v in enumerate(variables))
            return
        groups: dict[Any, list[Any]] = {}
        for v in variables:
            groups.setdefault(v.dtype.base_dtype, []).append(v)
        yield from ((f"{name}/{dtype.name}", group) for dtype, group in groups.items())


def PairAveragingOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer, *, fuse_requests: bool = True, group: Group | None = None
) -> Optimizer:
    """Makes each peer train a model of its own, averaged with one other peer's at a time.

    ```
    u ← model of a random other peer     # its newest, requested after the previous step
    v ← (v + u) / 2
    v ← update(v, g)                     # g: of this peer's batch, at the v before averaging
    publish v
    ```

    No peer waits for a straggler. A published model is served while its owner computes or is idle,
    and travels while this peer computes its gradients. If the other peer has not published yet, or
    has ended normally, this peer makes the step on its own model. So it does if that peer was lost
    in a job of `-on-failure survive`; elsewhere a request to a crashed peer is an error. In a step
    all peers ask the one that is as many ranks further. So each peer sends and receives one model
    per step, whatever the number of peers. It keeps two copies of it in memory.

    The peers' models differ: evaluate and save their average, which `average_variables` computes.
    `fit` does so by itself, and leaves the average in the model. In `fit` each peer takes as many
    steps as it has batches, and gradients are not weighted. The peers meet at the end of each
    epoch; the first to arrive waits for KUNGFU_COLLECTIVE_TIMEOUT at most. Callbacks that stop
    training do so there, and a callback that saves in the middle of an epoch saves rank 0's own
    model. Each peer keeps its own optimizer state.

    In `kungfu_tf.elastic.fit` and with a `kungfu_tf.hooks.ElasticHook` peers may come and go. Each
    changes over between two of its own steps, and all continue from the average of all models. A
    peer whose share of an epoch has one batch less then makes a step with zero gradients.

    Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
    2018; pulling the model ahead of time is from KungFu (Mai et al., OSDI 2020).

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        fuse_requests: Whether all variables of a dtype travel together. If not, each variable is
            requested separately, and may come from another step of the other peer.
        group: As for `SynchronousSGDOptimizer`. Other peers are those of the group then.

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
    return wrap(optimizer, lambda: PairAveraging(fuse_requests), group=group)
