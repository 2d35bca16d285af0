"""Gradients that travel with 8 bits for each element, and a scale for each block of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.ops.gradient_values import tied

_LARGEST = 127.0
_STEP = np.float32(
    1 / _LARGEST
)  # TensorFlow would multiply by it in functions, and divide elsewhere


@dataclasses.dataclass(kw_only=True, eq=False)
class Int8(Codec):
    """Sends gradients with 8 bits for each element: a quarter of float32's.

    ```
    quantised(x), for each block of elements:
        scale = max |x| / 127
        q = floor(x / scale + u)             # u: random in [0, 1), so the mean of q·scale is x
    each peer gets a part of all peers' quantised gradients      # all to all
        mean ← Σ over peers of q·scale / peers                   # in float32
    all peers get each part's quantised(mean)                    # all gather
    ```

    Rounding is unbiased at both stages, so nothing is kept for later steps. The random numbers
    follow from the number of the exchange, the rank and the bucket: a repeated training has the
    same. A bucket is sent as soon as it is complete, while the backward pass goes on. It is
    computed by operations of TensorFlow, which take time: on links of 100 Mbit/s and more, measure
    it beside `Cast`.

    A block in which an element is not finite is NaN on all peers. It cannot be used with
    `kungfu-run -on-failure survive`: survivors could not repeat its two stages.

    Sources: Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022,
    arXiv:2110.02861 (blocks); Alistarh et al., "QSGD", NeurIPS 2017 (random rounding).

    Args:
        block: The number of elements that share a scale, an integer from 1. Each costs 4 bytes.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less than 1.
        FailedPreconditionError: In a step, if the job survives lost peers.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.1), compression=kf.compression.Int8(block=256)
    )
    ```
    """

    block: int = 256

    def __post_init__(self) -> None:
        if isinstance(self.block, bool) or not isinstance(self.block, int):
            raise TypeError(f"Int8: block is a number of elements, not {self.block!r}")
        if self.block < 1:
            raise ValueError(f"Int8: block must be at least 1, and is {self.block}")
        self._exchanges = graph_state.State(
            lambda: graph_state.variable(0, tf.int64, "compression/exchanges")
        )

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the counter of exchanges."""
        del variables
        if tf.compat.v1.executing_eagerly_outside_functions():
            self.state.exchanges = self._exchanges.get()

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the means of what was rounded."""
        if peer.launched() and peer.survives():
            raise errors.FailedPreconditionError(
                "Int8: with -on-failure survive it cannot be: survivors could not repeat its two "
                "stages. Take Cast or PowerSGD"
            )
        self.build(variables)
        counter = self._exchanges.get()
        before = counter.read_value()
        floating = [i for i, value in enumerate(values) if value.dtype.is_floating]
        others = [i for i in range(len(values)) if i not in floating]
        means = dict(zip(others, channel.mean([values[i] for i in others], "others"), strict=True))
        chosen = [values[i] for i in floating]
        for number, bucket in enumerate(channel.buckets(chosen)):
            mine = [chosen[i] for i in bucket]
            flat = tf.concat([tf.reshape(tf.cast(v, tf.float32), [-1]) for v in mine], axis=0)
            mean = self._mean(flat, before, channel, number)
            parts = tf.split(mean, tf.stack([tf.size(v) for v in mine]), num=len(mine))
            for i, value, part in zip(bucket, mine, parts, strict=True):
                means[floating[i]] = tf.cast(tf.reshape(part, tf.shape(value)), value.dtype)
        counted = assign([counter], [before + 1])
        return tied([means[i] for i in range(len(values))], counted)

    def _mean(self, flat: Any, count: Any, channel: Channel, bucket: int) -> Any:
        """The mean of a vector, in two stages."""
        size = tf.size(flat)
        rows = -(-size // self.block)
        padded = tf.pad(flat, [[0, rows * self.block - size]])
        blocks = tf.reshape(padded, [rows, self.block])
        received = channel.all_to_all(self._encoded(blocks, count, 2 * bucket), bucket)
        peers = ops.cluster_size()
        own_rows = tf.shape(received)[0] // peers
        parts = tf.reshape(received, [peers, own_rows, self.block + 4])
        own = tf.reduce_sum(self._decoded(parts), axis=0) / tf.cast(peers, tf.float32)
        encoded = self._encoded(own, count, 2 * bucket + 1)
        gathered = channel.all_gather(encoded, bucket, "gathered")
        return tf.reshape(self._decoded(gathered), [-1])[:size]

    def _encoded(self, blocks: Any, count: Any, use: int) -> Any:
        """Rows of bytes, [rows, block + 4]: a block's elements, and its scale.

        Args:
            blocks: float32, [rows, block].
            count: The number of the exchange.
            use: What else the random numbers follow from, beside the rank.
        """
        is_finite = tf.reduce_all(tf.math.is_finite(blocks), axis=1, keepdims=True)
        largest = tf.reduce_max(tf.abs(blocks), axis=1, keepdims=True)
        scales = tf.where(is_finite, largest * _STEP, np.nan)
        seed = tf.stack([count, tf.cast(ops.rank(), tf.int64) * (1 << 32) + use])
        noise = tf.random.stateless_uniform(tf.shape(blocks), seed)
        scaled = tf.math.divide_no_nan(tf.where(is_finite, blocks, 0.0), largest * _STEP)
        rounded = tf.clip_by_value(tf.floor(scaled + noise), -_LARGEST, _LARGEST)
        elements = tf.bitcast(tf.cast(rounded, tf.int8), tf.uint8)
        return tf.concat([elements, tf.bitcast(scales, tf.uint8)[:, 0]], axis=1)

    def _decoded(self, encoded: Any) -> Any:
        """The blocks, float32, [..., block]."""
        elements, scales = encoded[..., : self.block], encoded[..., self.block :]
        wide = tf.cast(tf.bitcast(elements, tf.int8), tf.float32)
        return wide * tf.bitcast(scales, tf.float32)[..., tf.newaxis]
