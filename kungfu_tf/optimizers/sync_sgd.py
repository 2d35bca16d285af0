"""Synchronous SGD: each peer applies the mean of all peers' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.buckets import DEFAULT_BUCKET_BYTES, check_bucket_bytes
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.ops import naming

Optimizer = TypeVar("Optimizer")


class SynchronousSGD(Algorithm):
    """g ← mean over peers of g."""

    keeps_equal = True

    def __init__(self, bucket_bytes: int = DEFAULT_BUCKET_BYTES, *, monitor: bool = False) -> None:
        self.bucket_bytes = bucket_bytes
        self.monitor = monitor

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the means. The last layers' gradients are known first and travel first."""
        return mean_gradients(
            gradients,
            variables,
            bucket_bytes=self.bucket_bytes,
            name=self.exchange,
            step=step,
            sums_rows=self.sums_rows,
        )

    @property
    def exchange(self) -> str:
        """The prefix of the names of the buckets' operations."""
        name = f"{self.name}/gradients"
        return naming.monitored(name) if self.monitor else name


def SynchronousSGDOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer, *, bucket_bytes: int = DEFAULT_BUCKET_BYTES, monitor: bool = False
) -> Optimizer:
    """Makes an optimizer synchronous: N peers × batch B train like one process × batch N·B.

    ```
    g ← mean over peers of g
    v ← update(v, g)        # the optimizer's own, with its clipping and weight decay
    ```

    On every peer all trainable variables and all of the optimizer's are bitwise equal after every
    step, if they were before the first: see `BroadcastGlobalVariablesCallback`.

    In `fit` the mean is one over samples: a peer's gradient counts as much as its batch has
    samples. A peer without batches continues with weight 0:

    ```
    g ← Σ over peers of n·g / Σ over peers of n
    ```

    So losses must be means over the batch, as Keras' are. In loops of one's own peers count alike:
    let their batches be of one size, or see `DistributedGradientTape(samples=...)`.

    The optimizer is changed in place, and keeps its state and its class' name. So models are saved
    and loaded as with the plain one, also without kungfu_tf. A loaded optimizer is plain: wrap
    `model.optimizer` again, which keeps its state.

    With `gradient_accumulation_steps` the gradients travel once per update; if a loss scale is
    adapted as well, one byte in each step. (Of a MultiOptimizer that makes optimizers with other
    steps while it is built, all travel in each step.) The steps of an update count alike, however
    many samples each has, as in one process. The ranges that a quantised layer records are the
    largest over the peers.

    Sparse rows, the gradients of embeddings, travel as such. If an optimizer adds up the gradients
    of a row (all but Keras 3's do), each row travels once, or the whole variable does if that is
    less.

    Args:
        optimizer: Of Keras 3, Keras 2, tf-keras, or `tf.compat.v1.train`. Give the outermost of
            nested optimizers (LossScaleOptimizer, MultiOptimizer). Or what `compile` takes for one
            of `tf.keras`, a name or a config.
        bucket_bytes: Gradients travel in groups of up to so many bytes. Small groups start
            earlier, large ones cost less each.
        monitor: Whether the exchange counts for the throughput: see `kungfu_tf.calc_stats`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or `bucket_bytes` not an integer.
        ValueError: If it is wrapped already, or `bucket_bytes` is not positive.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_bucket_bytes(bucket_bytes)
    return wrap(optimizer, lambda: SynchronousSGD(bucket_bytes, monitor=monitor))
