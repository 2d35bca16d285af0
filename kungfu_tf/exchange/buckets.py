"""Buckets of gradients that travel together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

DEFAULT_BUCKET_BYTES = 25 << 20


def check_bucket_bytes(bucket_bytes: Any) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is not positive.
    """
    if not isinstance(bucket_bytes, int):
        raise TypeError(f"bucket_bytes is a number of bytes, not {bucket_bytes!r}")
    if bucket_bytes <= 0:
        raise ValueError(f"bucket_bytes must be positive, not {bucket_bytes}")


def check_op(op: str) -> None:
    """Checks how gradients are to be combined.

    Raises:
        ValueError: If it is neither "mean" nor "sum".
    """
    if op not in ("mean", "sum"):
        raise ValueError(f"op is 'mean' or 'sum' for gradients, not {op!r}")


def check_predivide(predivide: Any, op: str) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is not positive and finite, or `op` is not "mean".
    """
    if not isinstance(predivide, (int, float)):
        raise TypeError(f"predivide is a number, not {predivide!r}")
    if not 0 < predivide < math.inf:
        raise ValueError(f"predivide must be positive and finite, not {predivide}")
    if predivide != 1 and op != "mean":
        raise ValueError(f"predivide is for means of gradients, not for op={op!r}")


def plan(gradients: Sequence[Any], variables: Sequence[Any], bucket_bytes: int) -> list[list[int]]:
    """Cuts the gradients into buckets, lists of indices.

    Buckets are filled from the last gradient to the first, because the backward pass computes them
    in this order. A bucket holds gradients of one dtype and at most `bucket_bytes`. A larger
    gradient, a sparse one, and one of unknown size have a bucket of their own. None is in no
    bucket. The plan depends only on what is equal on all peers: dtypes, the variables' shapes, and
    which gradients are None.
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
