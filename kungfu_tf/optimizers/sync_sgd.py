"""Synchronous SGD: each peer applies the mean of all peers' gradients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.exchange.accumulation import Accumulation, check_steps
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.buckets import (
    DEFAULT_BUCKET_BYTES,
    check_bucket_bytes,
    check_op,
    check_predivide,
)
from kungfu_tf.exchange.codec import Codec, check_codec
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.wrap import check_accumulates, wrap
from kungfu_tf.groups import Group
from kungfu_tf.ops import naming

Optimizer = TypeVar("Optimizer")


class SynchronousSGD(Algorithm):
    """g ← mean, or sum, over peers of g."""

    keeps_equal = True

    def __init__(
        self,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        *,
        monitor: bool = False,
        op: str = "mean",
        predivide: float = 1.0,
        accumulation: Accumulation | None = None,
        compression: Codec | None = None,
    ) -> None:
        self.bucket_bytes = bucket_bytes
        self.monitor = monitor
        self.op = op
        self.predivide = predivide
        self.accumulation = accumulation
        self.compression = None if compression is None else compression.anew()

    @functools.cached_property
    def state(self) -> tf.Module:
        """That of the codec."""
        return tf.Module() if self.compression is None else self.compression.state

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the codec's state."""
        if self.compression is not None:
            self.compression.build(variables)

    def share_state(self) -> None:
        """Shares the codec's."""
        if self.compression is not None:
            with groups.among(self.group):
                self.compression.share(self.name)

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the results. The last layers' gradients are known, and sent, first."""
        return mean_gradients(
            gradients,
            variables,
            bucket_bytes=self.bucket_bytes,
            name=self.exchange,
            step=step,
            sums_rows=self.sums_rows,
            op=self.op,
            predivide=self.predivide,
            compression=self.compression,
        )

    @property
    def exchange(self) -> str:
        """The prefix of the names of the buckets' operations."""
        name = f"{self.name}/gradients"
        return naming.monitored(name) if self.monitor else name


def SynchronousSGDOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer,
    *,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    monitor: bool = False,
    op: str = "mean",
    predivide: float = 1.0,
    steps_per_update: int = 1,
    group: Group | None = None,
    compression: Codec | None = None,
) -> Optimizer:
    """Makes an optimizer synchronous: N peers × batch B train like one process × batch N·B.

    ```
    g ← mean over peers of g
    v ← update(v, g)        # the optimizer's own, with its clipping and weight decay
    ```

    All trainable variables and all of the optimizer's are bitwise equal on all peers after every
    step, if they were before the first: see `BroadcastGlobalVariablesCallback`.

    In `fit` the mean is over samples: a peer's gradient is weighted by the size of its batch. A
    peer that has run out of batches continues with weight 0:

    ```
    g ← Σ over peers of n·g / Σ over peers of n
    ```

    So losses must be means over the batch, as Keras' are. In a training loop of your own all peers
    have the same weight: use batches of equal size, or `DistributedGradientTape(samples=...)`.

    The optimizer is changed in place, and keeps its state and its class name. So models are saved
    and loaded as with the plain optimizer, even without kungfu_tf. A loaded optimizer is plain:
    wrap `model.optimizer` again, which keeps its state.

    With `gradient_accumulation_steps` the gradients are sent once per update, plus one byte in each
    step if a loss scale adapts. (If a MultiOptimizer creates optimizers with other numbers of steps
    while it is built, all its gradients are sent in each step.) The steps of an update have the
    same weight, whatever their batch sizes, as in one process. The ranges that a quantised layer
    records are the largest over the peers.

    Sparse rows, the gradients of embeddings, are sent as such. If an optimizer adds up the
    gradients of a row (all but Keras 3's do), each row is sent once, or the whole variable if that
    is less.

    Args:
        optimizer: One of Keras 3, Keras 2, tf-keras, or `tf.compat.v1.train`; of nested ones
            (LossScaleOptimizer, MultiOptimizer), the outermost. A name or a config that
            `tf.keras`' `compile` accepts will do, too.
        bucket_bytes: Gradients are sent in groups of up to this many bytes. Small groups start
            earlier, large ones have less overhead.
        monitor: Whether the exchange counts towards the throughput: see `kungfu_tf.calc_stats`.
        op: "mean"; or "sum", which is `size` times as much, for losses that are sums over the
            batch of all peers, or already divided by its size. `kungfu-run -verify` expects means.
        predivide: What each peer divides its gradients by before they travel; the means are
            multiplied by it. So large gradients stay finite in few bits. It goes with means.
        steps_per_update: How many steps of an optimizer of Keras 2 or tf-keras make one update, of
            the mean of their gradients. Only then is anything sent. Each of them counts as an
            iteration, and what is left at the end is dropped. An optimizer of Keras 3 has
            `gradient_accumulation_steps` for this.
        group: The peers of the means, of which this is one (`kungfu_tf.Group`); None: all. `fit`
            is the work of its members then, and rank 0 the first of them. `elastic.fit` is always
            the work of all.
        compression: How gradients travel, a codec of `kungfu_tf.compression`; None: as they are.
            The optimizer makes a codec of its own with the same settings, which it keeps as
            `optimizer.kungfu_algorithm.compression`. Sparse rows travel as they are, and in a
            single process nothing is compressed.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, `bucket_bytes` is not an integer, `predivide`
            is not a number, or `compression` is no codec.
        ValueError: If it is wrapped already, `bucket_bytes` or `predivide` is not positive, there
            is no such `op`, `predivide` goes with a sum, or the optimizer is not of Keras 2 and
            `steps_per_update` is not 1.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_bucket_bytes(bucket_bytes)
    check_op(op)
    check_predivide(predivide, op)
    check_codec(compression)
    check_steps(steps_per_update)

    def make() -> SynchronousSGD:
        accumulation = Accumulation(steps_per_update) if steps_per_update != 1 else None
        return SynchronousSGD(
            bucket_bytes,
            monitor=monitor,
            op=op,
            predivide=predivide,
            accumulation=accumulation,
            compression=compression,
        )

    wrapped = wrap(optimizer, make, group=group)
    if steps_per_update != 1:
        check_accumulates(wrapped)
    return wrapped
