"""Means of gradients over samples, in steps that do not add up the samples of all peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.replicas import sample_weights


def synchronous_means(
    gradients: Sequence[Any], variables: Sequence[Any], *, name: str, sums_rows: bool
) -> list[Any]:
    """The means over all peers' samples, as of `SynchronousSGD`. The peers add these up before.

    Args:
        gradients: As for `mean_gradients`.
        variables: As for `mean_gradients`.
        name: The prefix of the names of its operations.
        sums_rows: As for `mean_gradients`.
    """
    weight = None
    if sample_weights.current() is not None:
        mine = sample_weights.samples_of_step()
        sums = ops.all_reduce(tf.stack([mine, 1.0]), op="sum", name=f"{name}/samples")
        weight = tf.math.divide_no_nan(mine * sums[1], sums[0])
    weighted = sample_weights.weighted(gradients, weight)
    with sample_weights.unweighted():
        return mean_gradients(weighted, variables, name=f"{name}/gradients", sums_rows=sums_rows)
