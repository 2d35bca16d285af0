"""The number of an update, whichever optimizer makes it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.context import graph_state


class UpdateNumber:
    """Counts the updates of an optimizer; those that count themselves are asked.

    In a TF1 graph the global step counts for an optimizer without a number. If there is none, a
    variable does.

    Args:
        name: The name of that variable.
    """

    def __init__(self, name: str) -> None:
        self._counted = graph_state.State(lambda: graph_state.variable(0, tf.int64, name))

    def now(self, step: Any) -> Any:
        """The number of an update, as it is before: the update will raise it.

        Args:
            step: The number that the optimizer has; None if it has none.
        """
        if step is None:
            step = _global_step()
        if step is None:
            step = self._counted.get()
        return tf.identity(tf.cast(tf.convert_to_tensor(step), tf.int64)) + 0

    def end_update(self, step: Any) -> list[Any]:
        """Counts an update that nobody else does. Returns the operations for a TF1 graph."""
        if step is not None or _global_step() is not None:
            return []
        return [self._counted.get().assign_add(1, read_value=False)]


def _global_step() -> Any:
    if tf.compat.v1.executing_eagerly_outside_functions():
        return None
    return tf.compat.v1.train.get_global_step()
