"""Codecs that send in later steps what they have not sent in this one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.exchange import kept_errors
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec, check_inner
from kungfu_tf.ops.gradient_values import tied


@dataclasses.dataclass(eq=False)
class ErrorFeedback(Codec):
    """Sends by another codec, and later what that has taken from this peer's gradients.

    ```
    e = 0                                    # for each gradient, as many elements
    in each exchange:
        m ← g + e                            # g: this peer's gradient, times its weight
        use the codec's mean of m
        e ← m − what the codec made of this peer's m
    ```

    It is for codecs whose errors are large, such as `Int4`, at the price of as much memory as the
    gradients. `PowerSGD` and `TopK` have a feedback of their own. What `Int8` and `Int4` round in
    their second stage is not this peer's, and not kept. 16-bit gradients are computed in float32.

    If any gradient of any peer is not finite, e stays as it was. With a loss scale e is kept
    without it. `share` gives all peers the mean of their e, so that none of it is lost. `fit` does
    so when it ends, before `BackupAndRestore` saves, and before peers come and go. If a peer fails,
    its e is lost.

    Source: Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression
    Schemes", ICML 2019, arXiv:1901.09847.

    Args:
        codec: A codec that says what it has sent (`Codec.exchanged`): `Cast`, `Int8`, `Int4`, a
            `BySize` of these, or one of your own.

    Raises:
        TypeError: If it is no codec.
        ValueError: If it has a feedback of its own, or does not say what it has sent.
        tf.errors.InvalidArgumentError: In a step, on all peers, if an e is not finite, as one from
            a broken backup.

    Example:

    ```python
    codec = kf.compression.ErrorFeedback(kf.compression.Int4())
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), compression=codec)
    ```
    """

    codec: Codec

    def __post_init__(self) -> None:
        check_inner("ErrorFeedback", self.codec)
        if not self.codec.says_what_was_sent:
            raise ValueError(
                f"ErrorFeedback: {self.codec!r} has a feedback of its own, or does not say what it "
                "has sent (Codec.exchanged)"
            )
        self._errors = kept_errors.KeptErrors()

    def build(self, variables: Sequence[Any]) -> None:
        """Creates e for the variables, and the codec's state."""
        self.codec.build(variables)
        self._errors.of(variables)
        if tf.compat.v1.executing_eagerly_outside_functions():
            self.state.codec = self.codec.state
            self.state.errors = self._errors.all()

    def share(self, name: str = "compression") -> None:
        """Shares the codec's state. Gives all peers the mean of their e."""
        self.codec.share(f"{name}/codec")
        kept_errors.share_errors(self._errors.all(), f"{name}/errors")

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns the codec's means."""
        self.build(variables)
        errors = self._errors.of(variables)
        wholes = list(values)
        for i, error in errors.items():
            wholes[i] = kept_errors.with_error(values[i], error, channel)
        unscaled = dataclasses.replace(channel, scale=1.0)
        means, sent = self.codec.exchanged(wholes, variables, unscaled)
        is_finite = tf.convert_to_tensor(channel.is_finite) & kept_errors.all_finite(means)
        well = kept_errors.checked(list(errors.values()), is_finite, channel) if errors else True
        new = []
        for i, error in errors.items():
            means[i] = kept_errors.as_gradient(means[i], values[i], channel)
            new.append(tf.where(is_finite, wholes[i] - sent[i], error.read_value()))
        return tied(means, [well, *assign(list(errors.values()), new)])
