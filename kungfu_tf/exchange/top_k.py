"""Gradients of which only the largest elements travel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.kept_errors import (
    KeptErrors,
    all_finite,
    as_gradient,
    checked,
    share_errors,
    with_error,
)
from kungfu_tf.ops.gradient_values import tied

_PLACE_BYTES = 4


@dataclasses.dataclass(kw_only=True, eq=False)
class TopK(Codec):
    """Sends the largest elements of each gradient, and the others later.

    ```
    e = 0                                    # for each gradient, as many elements
    in each exchange:
        m ← g + e                            # g: this peer's gradient, times its weight
        s ← m where |m| is among the k largest of this gradient, elsewhere 0
        e ← m − s
        use Σ over peers of s / peers in place of the mean of g
    ```

    Here k is `ratio` of the elements, rounded up. Gradients with fewer than `at_least` elements
    travel as they are. What is sent is k elements with their places: 8 bytes each in float32. All
    peers get those of all others, so a peer receives 8·k·(peers − 1) bytes: with many peers it
    saves little. What is not sent is kept for later steps ("error feedback"), in as much memory as
    the gradients. 16-bit gradients are computed, and sent, in float32.

    Expect less accuracy than with `PowerSGD` at as many bytes, and a smaller learning rate to be
    needed at ratios below a hundredth. It is for gradients that are no matrices, or have few large
    elements.

    If any gradient of any peer is not finite, e stays as it was, and elements of the mean are NaN.
    With a loss scale e is kept without it. `share` gives all peers the mean of their e, so that
    none of it is lost. `fit` does so when it ends, before `BackupAndRestore` saves, and before
    peers come and go. If a peer fails, its e is lost.

    Source: Lin et al., "Deep Gradient Compression", ICLR 2018, arXiv:1712.01887, without its
    corrections of momentum.

    Args:
        ratio: The part of the elements that is sent, a number above 0, to 1.
        at_least: How many elements a gradient must have to be compressed, an integer from 1.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If one is out of range.
        tf.errors.InvalidArgumentError: In a step, on all peers, if an e is not finite, as one from
            a broken backup.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.1), compression=kf.compression.TopK(ratio=0.01)
    )
    ```
    """

    ratio: float = 0.01
    at_least: int = 1024

    def __post_init__(self) -> None:
        if isinstance(self.ratio, bool) or not isinstance(self.ratio, (int, float)):
            raise TypeError(f"TopK: ratio is a number, not {self.ratio!r}")
        if not 0 < self.ratio <= 1:
            raise ValueError(f"TopK: ratio must be above 0, to 1, and is {self.ratio}")
        if isinstance(self.at_least, bool) or not isinstance(self.at_least, int):
            raise TypeError(f"TopK: at_least is a number of elements, not {self.at_least!r}")
        if self.at_least < 1:
            raise ValueError(f"TopK: at_least must be at least 1, and is {self.at_least}")
        self._errors = KeptErrors()

    def build(self, variables: Sequence[Any]) -> None:
        """Creates e for those of the variables that are compressed."""
        self._errors.of(variables, self.at_least)
        if tf.compat.v1.executing_eagerly_outside_functions():
            self.state.errors = self._errors.all()

    def share(self, name: str = "compression") -> None:
        """Gives all peers the mean of their e."""
        share_errors(self._errors.all(), f"{name}/errors")

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the means of what was sent."""
        self.build(variables)
        errors = self._errors.of(variables, self.at_least)
        others = [i for i in range(len(values)) if i not in errors]
        means = dict(zip(others, channel.mean([values[i] for i in others]), strict=True))
        is_finite = tf.convert_to_tensor(channel.is_finite) & all_finite(list(means.values()))
        wholes = {i: _whole(values[i], error, channel) for i, error in errors.items()}
        left = {}
        for number, bucket in enumerate(_buckets(errors, wholes, channel)):
            chosen = [_largest(wholes[i], self._count_of(errors[i])) for i in bucket]
            sizes = [int(np.prod(errors[i].shape)) for i in bucket]
            part = "largest" if others else ""  # peers with other codecs meet in the first name
            sums, peers = _sums(chosen, sizes, channel, number, part)
            for i, (elements, places), total in zip(bucket, chosen, sums, strict=True):
                mean = total / tf.cast(peers, total.dtype)
                means[i] = as_gradient(mean, values[i], channel)
                left[i] = tf.tensor_scatter_nd_sub(wholes[i], places[:, tf.newaxis], elements)
                is_finite &= tf.reduce_all(tf.math.is_finite(mean))
        new = [
            tf.where(is_finite, tf.reshape(left[i], error.shape), error.read_value())
            for i, error in errors.items()
        ]
        kept = list(errors.values())
        well = checked(kept, is_finite, channel) if kept else True
        return tied([means[i] for i in range(len(values))], [well, *assign(kept, new)])

    def _count_of(self, error: Any) -> int:
        return math.ceil(self.ratio * int(np.prod(error.shape)))


def _buckets(errors: dict[int, Any], wholes: dict[int, Any], channel: Channel) -> list[list[int]]:
    """The places of gradients that travel together. Those of a bucket have one dtype."""
    buckets = []
    for dtype in dict.fromkeys(error.dtype for error in errors.values()):
        of_dtype = [i for i, error in errors.items() if error.dtype == dtype]
        parts = channel.buckets([wholes[i] for i in of_dtype])
        buckets += [[of_dtype[place] for place in part] for part in parts]
    return buckets


def _whole(value: Any, error: Any, channel: Channel) -> Any:
    """g + e, without the loss scale, as a vector."""
    return tf.reshape(with_error(value, error, channel), [int(np.prod(error.shape))])


def _largest(whole: Any, count: int) -> tuple[Any, Any]:
    """The elements that are sent, and their places. If not all are finite, these are NaN."""
    is_finite = tf.reduce_all(tf.math.is_finite(whole))
    _, places = tf.math.top_k(tf.where(is_finite, tf.abs(whole), 0.0), count, sorted=False)
    return tf.where(is_finite, tf.gather(whole, places), np.nan), places


def _sums(
    chosen: Sequence[tuple[Any, Any]],
    sizes: Sequence[int],
    channel: Channel,
    number: int,
    part: str,
) -> tuple[list[Any], Any]:
    """The sums over the peers of what they have sent, a vector for each gradient; and how many.

    Peers are added in the order of their ranks, so all get the same bits.

    Args:
        chosen: The elements and places that this peer sends.
        sizes: How many elements each gradient has.
        channel: The way to the others.
        number: That of the bucket.
        part: As for `Channel.all_gather`.
    """
    elements = tf.concat([elements for elements, _ in chosen], axis=0)
    starts = np.cumsum([0, *sizes[:-1]])
    moved = [places + int(start) for (_, places), start in zip(chosen, starts, strict=True)]
    count, dtype = elements.shape[0], elements.dtype
    rows = tf.concat(
        [tf.bitcast(elements, tf.uint8), tf.bitcast(tf.concat(moved, axis=0), tf.uint8)], axis=1
    )
    received = channel.all_gather(rows, number, part)
    of_peers = tf.reshape(received, [-1, count, dtype.size + _PLACE_BYTES])
    parts = (
        tf.bitcast(of_peers[..., : dtype.size], dtype),
        tf.bitcast(of_peers[..., dtype.size :], tf.int32),
    )
    total = tf.foldl(
        lambda sums, part: tf.tensor_scatter_nd_add(sums, part[1][:, tf.newaxis], part[0]),
        parts,
        initializer=tf.zeros([sum(sizes)], dtype),
    )
    return tf.split(total, sizes), tf.shape(of_peers)[0]
