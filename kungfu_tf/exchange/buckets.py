"""The mean of many gradients over the peers, a bucket of them in each operation.

A bucket is sent when its gradients are ready, while the backward pass computes the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.exchange import sparse_rows
from kungfu_tf.ops import norms
from kungfu_tf.replicas import sample_weights

DEFAULT_BUCKET_BYTES = 25 << 20


class Norms:
    """Σ over the buckets of one step of |g|², of the peers' gradients and of their mean.

    Args:
        wanted: Whether this peer wants them, a bool scalar. Where one does not they are NaN.
    """

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self._own: list[Any] = []
        self._mean: list[Any] = []

    def add(self, own: Any, mean: Any) -> None:
        """Adds those of a bucket, float64 scalars: mean over the peers of |g|²; |mean g|²."""
        self._own.append(own)
        self._mean.append(mean)

    def totals(self) -> tuple[Any, Any]:
        return tf.add_n(self._own), tf.add_n(self._mean)


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
    measured: Norms | None = None,
    sums_rows: bool = False,
) -> list[Any]:
    """Returns the means over the peers, in the order given; None stays None.

    Peers count alike; within `sample_weights.samples`, as much as their batches have samples. Of a
    process
    that is alone the gradients are returned as they are: nothing is added to the program.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: What they are the gradients of; gives their sizes.
        bucket_bytes: The most bytes of one operation.
        name: Bucket i is reduced as `<name>/<i>`; without it the operations name themselves.
        step: The optimizer's step, if it counts them: peers at different steps are told so.
        measured: To which the norms of what is sent and received are added.
        sums_rows: Whether slices of one row of a table may be added up: see `Algorithm.sums_rows`.
    """
    means = list(gradients)
    if peer.is_single_process():
        return means
    weight = sample_weights.current()
    for number, bucket in enumerate(plan(gradients, variables, bucket_bytes)):
        bucket_name = None if name is None else f"{name}/{number}"
        mine = [means[i] for i in bucket]
        if isinstance(mine[0], tf.IndexedSlices):  # alone in its bucket
            reduced = [
                _mean_slices(
                    mine[0],
                    variables[bucket[0]],
                    weight,
                    name=bucket_name,
                    step=step,
                    measured=measured,
                    sums_rows=sums_rows,
                )
            ]
        else:
            sent = sample_weights.weighted(mine, weight)
            reduced = _mean_tensors(sent, name=bucket_name, step=step, measured=measured)
        for i, mean in zip(bucket, reduced, strict=True):
            means[i] = mean
    return means


def _mean_tensors(
    sent: list[Any], *, name: str | None, step: Any, measured: Norms | None
) -> list[Any]:
    if measured is None:
        return ops.group_all_reduce(sent, op="mean", name=name, step=step)
    means, *squares = norms.group_mean(sent, wanted=measured.wanted, name=name, step=step)
    measured.add(*squares)
    return means


def _mean_slices(
    slices: Any,
    variable: Any,
    weight: Any,
    *,
    name: str | None,
    step: Any,
    measured: Norms | None,
    sums_rows: bool,
) -> Any:
    """The same of slices, which are not reduced where they lie: their norm travels with them."""
    if sums_rows:
        slices = sparse_rows.rows_once(slices)
    squares = [] if measured is None else [norms.squared_norm([slices], wanted=measured.wanted)]
    sent = sample_weights.weighted([slices], weight)
    means = [sparse_rows.mean_rows(sent.pop(), variable, name=name)] if sums_rows else []
    if rest := [*sent, *squares]:
        means += ops.group_all_reduce(rest, op="mean", name=name, step=step)
    if measured is not None:
        own = means[1]
        measured.add(own, norms.squared_norm(means[:1], wanted=tf.math.is_finite(own)))
    return means[0]
