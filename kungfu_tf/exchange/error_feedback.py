"""What codecs have in common that keep for later steps what they have not sent, e.

Source: Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes",
ICML 2019, arXiv:1901.09847.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf.exchange.channel import Channel
from kungfu_tf.ops.members import is_variable
from kungfu_tf.upstream import generations

State = TypeVar("State")


def by_place(variables: Sequence[Any], known: Mapping[Any, State]) -> dict[int, State]:
    """What is kept for those of the variables that are compressed, by their places in the list.

    Args:
        variables: The variables; None for a value that is of none.
        known: What is kept, by references of the variables.
    """
    natives = {i: generations.native(v) for i, v in enumerate(variables) if is_variable(v)}
    return {i: known[v.ref()] for i, v in natives.items() if v.ref() in known}


def with_error(value: Any, error: Any, channel: Channel) -> Any:
    """g + e in the form and the dtype of e, without the loss scale."""
    value = tf.cast(tf.reshape(value, error.shape), error.dtype)
    return value / tf.cast(channel.scale, error.dtype) + error.read_value()


def as_gradient(decoded: Any, value: Any, channel: Channel) -> Any:
    """What was decoded, in the form and the dtype of the gradient, with the loss scale."""
    scaled = decoded * tf.cast(channel.scale, decoded.dtype)
    return tf.cast(tf.reshape(scaled, tf.shape(value)), value.dtype)


def all_finite(values: Sequence[Any]) -> Any:
    """Whether each element of each value is; complex ones, too."""
    real = [abs(value) if value.dtype.is_complex else value for value in values]
    return tf.reduce_all([True, *(tf.reduce_all(tf.math.is_finite(value)) for value in real)])
