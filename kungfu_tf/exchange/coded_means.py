"""The means of dense gradients that travel by a codec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context
from kungfu_tf.exchange.buckets import plan
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.number_of_peers import number_of_peers
from kungfu_tf.ops.gradient_values import values_of
from kungfu_tf.replicas import sample_weights


def with_coded(
    means: Sequence[Any],
    gradients: Sequence[Any],
    variables: Sequence[Any],
    codec: Codec,
    *,
    bucket_bytes: int,
    name: str | None,
    step: Any,
    agree: Sequence[int],
    op: str,
) -> list[Any]:
    """The means, completed by those of dense gradients.

    1. A gradient is multiplied by this peer's weight, as in `mean_gradients`.
    2. The codec exchanges it.

    Args:
        means: Those of sparse rows; None for the others.
        gradients: Tensors, sparse rows (`tf.IndexedSlices`) or None.
        variables: The variables that they belong to.
        codec: How the dense ones travel.
        bucket_bytes: As for `mean_gradients`, like the rest.
        name: The first operation is `<name>/0`.
        step: The optimizer's step.
        agree: Numbers that must be the same on all peers.
        op: "mean" or "sum".
    """
    coded = [i for i, g in enumerate(gradients) if g is not None and means[i] is None]
    sent = [tf.convert_to_tensor(gradients[i]) for i in coded]
    trained = [variables[i] for i in coded]
    channel = Channel(
        name,
        agree=[*agree, codec.number],
        step=step,
        scale=context.current().scale,
        is_finite=_all_finite(means),
        bucket_bytes=bucket_bytes,
    )
    received = codec.means(_weighted(sent, trained, bucket_bytes), trained, channel) if sent else []
    result = list(means)
    if op == "sum" and received:
        peers = number_of_peers(received, name=name and f"{name}/peers")
        received = [mean * tf.cast(peers, mean.dtype) for mean in received]
    for i, mean in zip(coded, received, strict=True):
        result[i] = mean
    return result


def _weighted(gradients: list[Any], variables: list[Any], bucket_bytes: int) -> list[Any]:
    """The gradients times the weight, a bucket at a time: so each is ready as soon as it can be."""
    weight, result = sample_weights.current(), list(gradients)
    for bucket in plan(gradients, variables, bucket_bytes):
        weighted = sample_weights.weighted([gradients[i] for i in bucket], weight)
        for i, gradient in zip(bucket, weighted, strict=True):
            result[i] = gradient
    return result


def _all_finite(gradients: Sequence[Any]) -> Any:
    values = [values_of(gradient) for gradient in gradients if gradient is not None]
    return tf.reduce_all([True, *(tf.reduce_all(tf.math.is_finite(v)) for v in values)])
