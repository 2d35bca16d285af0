"""Operations with a state, which is this peer's own: a counter and a moving average."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.context import graph_state
from kungfu_tf.ops import kernels


@kernels.operation
def counter(*, init: int = 0, incr: int = 1, name: str | None = None) -> Any:
    """Counts how often it runs.

    Args:
        init: The number that it returns the first time.
        incr: How much it grows each time.
        name: Calls of one name are one counter. Without a name all eager calls are one, and each
            call in a graph is its own.

    Returns:
        An int64 scalar.

    Example:

    ```python
    step = kf.ops.counter(name="step")   # 0, 1, 2, ...
    ```
    """
    count = graph_state.of_call(
        "counter", name, lambda: graph_state.variable(init, tf.int64, "counter")
    )
    return tf.convert_to_tensor(count.assign_add(incr)) - incr


@kernels.operation
def exponential_moving_average(x: Any, *, alpha: float = 0.9, name: str | None = None) -> Any:
    """Returns the moving average of its inputs.

    ```
    y ← α·y + (1 − α)·x
    w ← α·w + (1 − α)
    return y / w            # both begin with 0: the first result is x
    ```

    Args:
        x: A tensor of a floating type, of one known shape in all calls.
        alpha: The weight of the past, 0 ≤ α < 1.
        name: Calls of one name are one average. Without a name all eager calls are one, and each
            call in a graph is its own.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: If `alpha` is out of range.
        InvalidArgumentError: If `x` is not of a floating type, or its shape is unknown or not that
            of the calls before.

    Example:

    ```python
    loss = kf.ops.exponential_moving_average(loss, name="loss")
    ```
    """
    what = f"exponential_moving_average '{name}'" if name else "exponential_moving_average"
    check_alpha(alpha, what)
    x = tf.convert_to_tensor(x)
    if not x.dtype.is_floating or not x.shape.is_fully_defined():
        raise errors.InvalidArgumentError(
            f"{what}: a floating type and a known shape are needed, not {x.dtype.name} {x.shape}"
        )

    def make() -> tuple[Any, Any]:
        total = graph_state.variable(tf.zeros(x.shape, x.dtype), x.dtype, "average/total")
        return total, graph_state.variable(0.0, x.dtype, "average/weight")

    total, weight = graph_state.of_call("exponential_moving_average", name, make)
    if total.shape != x.shape or total.dtype != x.dtype:
        raise errors.InvalidArgumentError(
            f"{what}: {x.dtype.name} {x.shape}, after {total.dtype.name} {total.shape} before: "
            "give each average a name of its own"
        )
    y = total.assign(alpha * total + (1 - alpha) * x)
    w = weight.assign(alpha * weight + (1 - alpha))
    return tf.convert_to_tensor(y) / tf.convert_to_tensor(w)


def check_alpha(alpha: float, what: str) -> None:
    """Checks that `alpha` is a weight of the past.

    Raises:
        ValueError: If it is not at least 0 and less than 1.
    """
    if not 0 <= alpha < 1:
        raise ValueError(f"{what}: alpha is at least 0 and less than 1, not {alpha}")
