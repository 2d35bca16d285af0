"""Gradients that travel with few bits for each element, and a scale for each block of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.ops.gradient_values import tied
from kungfu_tf.ops.quantize import dequantize, quantize

_SCALE_BYTES = 4


@dataclasses.dataclass(kw_only=True, eq=False)
class Quantized(Codec):
    """The mean in two stages: all to all, and all gather. See `Int8`.

    Args:
        block: The number of elements that share a scale.

    Attributes:
        bits: Of an element.
    """

    bits: ClassVar[int]

    block: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.block, bool) or not isinstance(self.block, int):
            raise TypeError(f"{name}: block is a number of elements, not {self.block!r}")
        if self.block < 1:
            raise ValueError(f"{name}: block must be at least 1, and is {self.block}")
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
        return self.exchanged(values, variables, channel)[0]

    def exchanged(
        self, values: Sequence[Any], variables: Sequence[Any], channel: Channel
    ) -> tuple[list[Any], list[Any]]:
        """Returns the means, and what this peer's values were rounded to."""
        if peer.launched() and peer.survives():
            raise errors.FailedPreconditionError(
                f"{type(self).__name__}: with -on-failure survive it cannot be: survivors could "
                "not repeat its two stages. Take Cast or PowerSGD"
            )
        self.build(variables)
        counter = self._exchanges.get()
        before = counter.read_value()
        floating = [i for i, value in enumerate(values) if value.dtype.is_floating]
        others = [i for i in range(len(values)) if i not in floating]
        means = dict(zip(others, channel.mean([values[i] for i in others], "others"), strict=True))
        sent = {i: values[i] for i in others}
        chosen = [values[i] for i in floating]
        for number, bucket in enumerate(channel.buckets(chosen)):
            places = [floating[i] for i in bucket]
            mine = [values[i] for i in places]
            flat = tf.concat([tf.reshape(tf.cast(v, tf.float32), [-1]) for v in mine], axis=0)
            mean, rounded = self._exchanged(flat, before, channel, number)
            means |= zip(places, _parts(mean, mine), strict=True)
            sent |= zip(places, _parts(rounded, mine), strict=True)
        counted = assign([counter], [before + 1])
        in_order = tied([means[i] for i in range(len(values))], counted)
        return in_order, [sent[i] for i in range(len(values))]

    def _exchanged(self, flat: Any, count: Any, channel: Channel, bucket: int) -> tuple[Any, Any]:
        """The mean of a vector, in two stages, and what this peer's was rounded to."""
        rows = self._encoded(flat, count, 2 * bucket)
        received = channel.all_to_all(rows, bucket)
        own = self._decoded(received, ops.cluster_size())
        gathered = channel.all_gather(self._encoded(own, count, 2 * bucket + 1), bucket, "gathered")
        return tuple(self._decoded(x, 1)[: tf.size(flat)] for x in (gathered, rows))

    def _encoded(self, vector: Any, count: Any, use: int) -> Any:
        """Rows of bytes.

        Args:
            vector: float32.
            count: The number of the exchange.
            use: What else the random numbers follow from, beside the rank.
        """
        of_peer = tf.bitwise.left_shift(tf.cast(ops.rank(), tf.int64), 52)
        return quantize(vector, count + (use << 40) + of_peer, block=self.block, bits=self.bits)

    def _decoded(self, rows: Any, parts: Any) -> Any:
        """The mean over the parts, a vector."""
        rows = tf.ensure_shape(rows, [None, self.block * self.bits // 8 + _SCALE_BYTES])
        return dequantize(rows, parts, block=self.block, bits=self.bits)


def _parts(vector: Any, values: Sequence[Any]) -> list[Any]:
    """The vector, cut into tensors of the shapes and dtypes of the values, one behind the other."""
    cut = tf.split(vector, tf.stack([tf.size(v) for v in values]), num=len(values))
    pairs = zip(cut, values, strict=True)
    return [tf.cast(tf.reshape(part, tf.shape(v)), v.dtype) for part, v in pairs]
