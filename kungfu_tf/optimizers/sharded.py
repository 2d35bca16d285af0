"""Synchronous SGD whose optimizer state is spread over the peers (ZeRO-1)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import context, errors, groups, peer
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.buckets import DEFAULT_BUCKET_BYTES, check_bucket_bytes
from kungfu_tf.exchange.keras3_shards import Keras3Shards
from kungfu_tf.exchange.shards import Shards
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.ops import group as group_ops
from kungfu_tf.ops import members
from kungfu_tf.optimizers.sync_sgd import SynchronousSGD
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")

_NAME = "ShardedOptimizer"


class ShardedSGD(SynchronousSGD):
    """g ← mean over peers of g; each variable is updated by its owner. See `ShardedOptimizer`."""

    is_sharded = True
    has_own_state = True

    def __init__(self, bucket_bytes: int = DEFAULT_BUCKET_BYTES) -> None:
        super().__init__(bucket_bytes)
        self.shards = Shards(_NAME)
        self._has_begun = False

    def begin(self) -> None:
        """Prepares the first update, when the slots exist."""
        here = context.current()
        if not (self._has_begun or here.is_private or here.is_rehearsal):
            with tf.init_scope():
                self.build([])

    def build(self, variables: Sequence[Any]) -> None:
        """Gives each peer its slots, if one has loaded the optimizer."""
        del variables
        self._has_begun = True
        if not peer.is_single_process():
            with groups.among(self.group):
                self.shards.scatter(name=f"{self.name}/slots")

    def share_state(self) -> None:
        """Gives rank 0 all slots, in the memory of its host, to be saved."""
        with groups.among(self.group):
            self.shards.gather(name=f"{self.name}/slots")

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the means."""
        with tf.control_dependencies(self.shards.check_peers()):
            return super().gradients(gradients, variables, step=step)

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Gives all peers what the owners have made of their variables."""
        if peer.is_single_process():
            return []
        parts = self.shards.parts(variables).items()
        with tf.control_dependencies(self.shards.check_peers()):
            sent = [assigned for owner, part in parts for assigned in self._sent(owner, part)]
            return [*sent, self.shards.note_update()]

    def _sent(self, owner: int, variables: list[Any]) -> list[Any]:
        values = group_ops.agreed_broadcast(
            [v.read_value() for v in variables],
            root=owner,
            name=f"{self.name}/of/{owner}",
            agree=[members.identity(variables), peer.membership_version()],
        )
        if owner == peer.rank():
            return []
        return [v.assign(value) for v, value in zip(variables, values, strict=True)]


def ShardedOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    group: Group | None = None,
) -> Optimizer:
    """Trains as `SynchronousSGDOptimizer`, with 1/size of the optimizer's state on each peer.

    ```
    g ← mean over peers of g
    v ← update(v, g)        # of each variable on one peer, its owner, which alone has the slots
    v ← that of its owner
    ```

    Adam has two slots for each variable, 8 bytes for each parameter. Here a peer has at most 1/size
    of all slots, and those of one variable more. Whole variables are dealt, the largest first. So
    optimizers that look at whole matrices train as they are (LAMB, Muon), and a table that is
    larger than all the rest cannot be divided.

    All weights are bitwise those of `SynchronousSGDOptimizer`, and equal on all peers. Each peer
    also computes a part of the updates only. On the other hand the owners send the new weights, so
    a step moves 1.5 times the bytes. On thin links `SynchronousSGDOptimizer` is faster.

    Saved files are those of the plain optimizer. `fit` brings the slots together in the memory of
    rank 0's host before a `ModelCheckpoint` or a `BackupAndRestore` saves, and at its end. In a
    loop of your own, call `optimizer.kungfu_algorithm.share_state()` on all peers right before rank
    0 saves. A file can be loaded by any number of peers. If only rank 0 has loaded it, `fit`, or
    the first step of a loop, sends each peer its slots. A `tf.train.Checkpoint` of the optimizer is
    refused.

    The number of peers must stay as it is: `elastic.fit` and `kungfu-run -on-failure survive` are
    refused, and `fit` takes in no newcomers. After a change or a failure begin again from a file.
    `kungfu-run -verify` does not verify it.

    Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models", SC 2020 (its first stage).

    Args:
        optimizer: One of Keras 3, also inside a LossScaleOptimizer. It is changed in place. If it
            was built before, its slots of others' variables are dropped here.
        bucket_bytes: As for `SynchronousSGDOptimizer`.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer of Keras 3.
        ValueError: If it is wrapped already, or `bucket_bytes` is not positive.
        UnimplementedError: If it has `use_ema`, or consists of several optimizers; when it is
            built, if it has state that is not a slot of one variable (Adafactor), or is made of
            weights (ScheduleFreeAdamW); in a `tf.train.Checkpoint`.
        FailedPreconditionError: In a step, if the job survives lost peers, or its peers have
            changed (in a step that was traced before, a `tf.errors.InvalidArgumentError`); when it
            is saved, if the slots were not brought together.

    Example:

    ```python
    optimizer = kf.optimizers.ShardedOptimizer(keras.optimizers.Adam(1e-3))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_bucket_bytes(bucket_bytes)
    again = functools.partial(ShardedOptimizer, bucket_bytes=bucket_bytes, group=group)
    make = functools.partial(ShardedSGD, bucket_bytes)
    return wrap_in_shards(_NAME, optimizer, Keras3Shards, make, again, group=group)


def wrap_in_shards(
    title: str,
    optimizer: Optimizer,
    mixin: type,
    make_algorithm: Callable[[], Algorithm],
    again: Callable[[Any], Any],
    *,
    group: Group | None = None,
) -> Optimizer:
    """`wrap` of an optimizer of Keras 3 of which each peer has the slots of some variables.

    Args:
        title: What the program calls, for messages.
        optimizer: As for `ShardedOptimizer`.
        mixin: `Keras3Shards`, or a class that is derived from it.
        make_algorithm: As for `wrap`. The algorithm has `shards`.
        again: Wraps a copy of the optimizer.
        group: As for `wrap`.
    """
    inner: Any = generations.innermost(optimizer)
    _check(inner, title)
    plain = type(inner)
    if not generations.is_wrapped(optimizer):  # else `wrap` says so
        inner.__class__ = generations.subclass(mixin, plain)
    try:
        wrapped = wrap(optimizer, make_algorithm, group=group)
    except BaseException:
        inner.__class__ = plain
        raise
    for part in generations.parts_of(wrapped):
        type(part).kungfu_wrap = staticmethod(again)
    if inner.built:
        inner.kungfu_reshard()
    return wrapped


def _check(optimizer: Any, title: str) -> None:
    name = type(optimizer).__name__
    known = [p.module.optimizers for p in generations.packages() if p.generation == 3]
    if not any(isinstance(optimizer, optimizers.Optimizer) for optimizers in known):
        raise TypeError(f"{title}: an optimizer of Keras 3, not {optimizer!r} ({name})")
    if getattr(optimizer, "optimizers", None):
        raise errors.UnimplementedError(
            f"{title}: {name} consists of several optimizers. Take SynchronousSGDOptimizer"
        )
    if optimizer.use_ema:
        raise errors.UnimplementedError(
            f"{title}: {name} has use_ema, whose averages are of all variables. Leave it "
            "away, or take SynchronousSGDOptimizer"
        )
