"""Operations that remember."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops


def counter(init: int = 0, incr: int = 1) -> Any:
    """Counts how often it runs, as int32."""
    return tf.cast(ops.counter(init=init, incr=incr), tf.int32)


def exponential_moving_average(x: Any, alpha: float = 0.9) -> Any:
    """Returns the moving average of its inputs; `alpha` is the weight of the past."""
    return ops.exponential_moving_average(x, alpha=alpha)
