"""Numbers of 16 bits, in which many steps would be rounded, in float32."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def wide(dtype: Any) -> Any:
    """The dtype to compute in: float32 for floating numbers of 16 bits, else the same."""
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype.base_dtype


def widened(value: Any) -> Any:
    """A tensor or variable, as a tensor of the dtype to compute in."""
    return tf.cast(tf.convert_to_tensor(value), wide(value.dtype))
