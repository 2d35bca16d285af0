"""Large gradients by one codec, and small ones by another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec, check_inner
from kungfu_tf.exchange.kept_errors import all_finite


@dataclasses.dataclass(eq=False)
class BySize(Codec):
    """Sends large gradients by one codec, and small ones by another, or as they are.

    Biases and the scales of normalisations are a small part of the bytes. With this they arrive as
    they are, while the large matrices travel in few bytes.

    Args:
        codec: That of gradients of at least so many elements.
        at_least: That number, an integer from 1. Gradients whose variable has an unknown shape are
            small.
        otherwise: The codec of the small ones; None: they travel as they are. It does not learn
            that a large gradient was not finite, and counts such a step.

    Raises:
        TypeError: If `codec` or `otherwise` is no codec, or `at_least` no integer.
        ValueError: If `at_least` is less than 1.

    Example:

    ```python
    codec = kf.compression.BySize(kf.compression.Int8(), at_least=4096)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), compression=codec)
    ```
    """

    codec: Codec
    _: dataclasses.KW_ONLY
    at_least: int = 1 << 16
    otherwise: Codec | None = None

    def __post_init__(self) -> None:
        check_inner("BySize", self.codec)
        if self.otherwise is not None:
            check_inner("BySize", self.otherwise)
        if isinstance(self.at_least, bool) or not isinstance(self.at_least, int):
            raise TypeError(f"BySize: at_least is a number of elements, not {self.at_least!r}")
        if self.at_least < 1:
            raise ValueError(f"BySize: at_least must be at least 1, and is {self.at_least}")

    @property
    def says_what_was_sent(self) -> bool:
        """Whether both codecs do."""
        is_known = self.otherwise is None or self.otherwise.says_what_was_sent
        return self.codec.says_what_was_sent and is_known

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the codecs' state, each for its variables."""
        for codec, places in self._parts(variables):
            if codec is not None:
                codec.build([variables[i] for i in places])
        if tf.compat.v1.executing_eagerly_outside_functions():
            self.state.codec = self.codec.state
            self.state.otherwise = self.otherwise and self.otherwise.state

    def share(self, name: str = "compression") -> None:
        """Shares the codecs' state."""
        self.codec.share(f"{name}/large")
        if self.otherwise is not None:
            self.otherwise.share(f"{name}/small")

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the means of both codecs."""
        means = list(values)
        for codec, places, part in self._in_turn(means, variables, channel):
            mine = [values[i] for i in places]
            of_mine = [variables[i] for i in places]
            found = part.mean(mine) if codec is None else codec.means(mine, of_mine, part)
            _put(means, places, found)
        return means

    def exchanged(
        self, values: Sequence[Any], variables: Sequence[Any], channel: Channel
    ) -> tuple[list[Any], list[Any]]:
        """Returns the means of both codecs, and what they have sent."""
        means, sent = list(values), list(values)
        for codec, places, part in self._in_turn(means, variables, channel):
            mine = [values[i] for i in places]
            if codec is None:
                found, of_mine = part.mean(mine), mine
            else:
                found, of_mine = codec.exchanged(mine, [variables[i] for i in places], part)
            _put(means, places, found)
            _put(sent, places, of_mine)
        return means, sent

    def _parts(self, variables: Sequence[Any]) -> list[tuple[Codec | None, list[int]]]:
        """The small variables and the large ones, by their places, with their codecs."""
        sizes = [tf.TensorShape(v.shape).num_elements() or 0 for v in variables]
        large = [i for i, size in enumerate(sizes) if size >= self.at_least]
        small = [i for i, size in enumerate(sizes) if size < self.at_least]
        return [(codec, p) for codec, p in ((self.otherwise, small), (self.codec, large)) if p]

    def _in_turn(
        self, means: list[Any], variables: Sequence[Any], channel: Channel
    ) -> Iterator[tuple[Codec | None, list[int], Channel]]:
        """The parts with their channels. Peers with other codecs meet in the names of the first."""
        self.build(variables)
        before: list[int] = []
        for codec, places in self._parts(variables):
            if not before:
                yield codec, places, channel
            else:
                name = None if channel.name is None else f"{channel.name}/large"
                is_finite = all_finite([means[i] for i in before])
                is_finite &= tf.convert_to_tensor(channel.is_finite)
                yield codec, places, dataclasses.replace(channel, name=name, is_finite=is_finite)
            before = places


def _put(whole: list[Any], places: Sequence[int], part: Sequence[Any]) -> None:
    for i, value in zip(places, part, strict=True):
        whole[i] = value
