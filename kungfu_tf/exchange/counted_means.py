"""Means over all peers' samples, Σ n·x / Σ n, whose two sums travel together.

So they are those of the same peers, also if one is lost meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def with_counts(values: Sequence[Any], samples: Any) -> list[Any]:
    """What a peer sends: n·x for each tensor, and n for each dtype of them.

    Args:
        values: The tensors x.
        samples: How many samples the peer has had, n, a float64 scalar.
    """
    counts = {dtype: tf.cast(samples, dtype) for dtype in _dtypes_of(values)}
    weighed = [tf.math.multiply_no_nan(value, counts[value.dtype]) for value in values]
    return [*weighed, *counts.values()]


def specs_with_counts(values: Sequence[Any]) -> list[tf.TensorSpec]:
    """The specs of what `with_counts` returns for tensors like these."""
    specs = [tf.TensorSpec(value.shape, value.dtype) for value in values]
    return [*specs, *(tf.TensorSpec([], dtype) for dtype in _dtypes_of(values))]


def ratios(means: Sequence[Any], otherwise: Sequence[Any]) -> list[Any]:
    """The means over samples.

    Args:
        means: Over the peers, of what `with_counts` has returned.
        otherwise: The results if nobody has samples, a tensor of the same dtype for each x.
    """
    counts = dict(zip(_dtypes_of(otherwise), means[len(otherwise) :], strict=True))
    return [
        tf.where(counts[value.dtype] > 0, mean / counts[value.dtype], value)
        for mean, value in zip(means, otherwise, strict=False)
    ]


def _dtypes_of(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(value.dtype for value in values))
