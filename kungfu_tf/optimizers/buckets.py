"""The mean of many gradients over the peers, a bucket of them in each operation.

A bucket is sent when its gradients are ready, while the backward pass computes the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from kungfu_tf import _weight, ops, peer
from kungfu_tf.optimizers import tables

DEFAULT_BUCKET_BYTES = 25 << 20


class Observer(Protocol):
    """Sees the gradients of each bucket, before and after."""

    def sends(self, gradients: Sequence[Any]) -> Any:
        """Returns a scalar that travels with them; of it the plain mean over the peers is made.

        Args:
            gradients: Of this peer.
        """

    def receives(self, scalar: Any, means: Sequence[Any]) -> None:
        """Is told the means of both."""


def check_bucket_bytes(bucket_bytes: Any) -> None:
    """
    Raises:
        TypeError: it is not an integer.
        ValueError: it is not positive.
    """
    if not isinstance(bucket_bytes, int):
        raise TypeError(f"bucket_bytes is a number of bytes, not {bucket_bytes!r}")
    if bucket_bytes <= 0:
        raise ValueError(f"bucket_bytes must be positive, not {bucket_bytes}")


def plan(gradients: Sequence[Any], variables: Sequence[Any], bucket_bytes: int) -> list[list[int]]:
    """Cuts the gradients into buckets: lists of indices.

    It starts with the last gradient, because the backward pass does, and follows the order of the
    variables. A bucket holds gradients of one dtype and at most `bucket_bytes`; a larger gradient,
    a sparse one, and one of unknown size have a bucket of their own. None is in no bucket. The plan
    depends on what is equal on all peers only: dtypes, the variables' shapes, and which are None.
    """
    buckets: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}  # by dtype: the bucket to add to, its bytes
    for i in reversed(range(len(gradients))):
        if gradients[i] is None:
            continue
        dtype = tf.as_dtype(gradients[i].dtype)
        count = tf.TensorShape(variables[i].shape).num_elements()
        if count is None or isinstance(gradients[i], tf.IndexedSlices):
            buckets.append([i])
            continue
        size = count * dtype.size
        bucket, filled = filling.get(dtype, ([], bucket_bytes))
        if not bucket or filled + size > bucket_bytes:
            bucket, filled = [], 0
            buckets.append(bucket)
        bucket.append(i)
        filling[dtype] = (bucket, filled + size)
    return buckets


def mean_gradients(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    *,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    name: str | None = None,
    step: Any = None,
    observer: Observer | None = None,
    sums_rows: bool = False,
) -> list[Any]:
    """Returns the means over the peers, in the order given; None stays None.

    Peers count alike; within `_weight.samples`, as much as their batches have samples. Of a process
    that is alone the gradients are returned as they are: nothing is added to the program.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: What they are the gradients of; gives their sizes.
        bucket_bytes: The most bytes of one operation.
        name: Bucket i is reduced as `<name>/<i>`; without it the operations name themselves.
        step: The optimizer's step, if it counts them: peers at different steps are told so.
        observer: Of what is sent and received.
        sums_rows: Whether slices of one row of a table may be added up: see `Algorithm.sums_rows`.
    """
    means = list(gradients)
    if peer.alone():
        return means
    own = _weight.current()
    for number, bucket in enumerate(plan(gradients, variables, bucket_bytes)):
        bucket_name = None if name is None else f"{name}/{number}"
        mine = [means[i] for i in bucket]
        is_table = sums_rows and isinstance(mine[0], tf.IndexedSlices)  # alone in its bucket
        if is_table:
            mine = [tables.rows_once(mine[0])]
        more = [observer.sends(mine)] if observer else []
        sent = _weight.weighted(mine, own)
        reduced = []
        if is_table:
            reduced.append(tables.mean_rows(sent.pop(), variables[bucket[0]], name=bucket_name))
        if tensors := [*sent, *more]:
            reduced += ops.group_all_reduce(tensors, op="mean", name=bucket_name, step=step)
        if observer:
            observer.receives(reduced.pop(), reduced)
        for i, mean in zip(bucket, reduced, strict=True):
            means[i] = mean
    return means
