"""Gradients that travel with 16 bits for each element."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec


@dataclasses.dataclass(eq=False)
class Cast(Codec):
    """Sends gradients with fewer bits: half of float32's.

    ```
    mean of g ← cast back(mean over peers of cast(g))     # the mean is made in float32, and rounded
    ```

    "bfloat16" has the range of float32, and 8 bits of precision. "float16" has 11 bits, and becomes
    infinite beyond 65504: give it a loss scale that adapts, clip what each peer has, or give the
    optimizer a `predivide`. Gradients that have 16 bits already travel as they are. Each bucket is
    sent as soon as it is complete, while the backward pass goes on.

    It keeps no state. Horovod's `Compression.fp16` is `Cast("float16")`.

    Args:
        dtype: "bfloat16" or "float16", or the dtype itself.

    Raises:
        TypeError: If it is no dtype.
        ValueError: If it is another dtype.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.1), compression=kf.compression.Cast("bfloat16")
    )
    ```
    """

    dtype: Any

    def __post_init__(self) -> None:
        try:
            name = tf.as_dtype(self.dtype).name
        except TypeError:
            raise TypeError(f"Cast: dtype is {_ALLOWED}, not {self.dtype!r}") from None
        if name not in ("bfloat16", "float16"):
            raise ValueError(f"Cast: dtype is {_ALLOWED}, not {name!r}")
        self.dtype = name

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the means of what was rounded."""
        return self.exchanged(values, variables, channel)[0]

    def exchanged(
        self, values: Sequence[Any], variables: Sequence[Any], channel: Channel
    ) -> tuple[list[Any], list[Any]]:
        """Returns the means, and what this peer's values were rounded to."""
        del variables
        narrow = [self._narrowed(value) for value in values]
        both = (channel.mean(narrow), narrow)
        means, sent = (
            [tf.cast(one, value.dtype) for one, value in zip(ones, values, strict=True)]
            for ones in both
        )
        return means, sent

    def _narrowed(self, value: Any) -> Any:
        is_wide = value.dtype.is_floating and value.dtype.size > 2
        return tf.cast(value, self.dtype) if is_wide else value


_ALLOWED = "'bfloat16' or 'float16'"
