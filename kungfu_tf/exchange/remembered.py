"""What a method remembers of each variable between steps: zero at first, and of each peer's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.context import graph_state
from kungfu_tf.upstream import generations


class Remembered:
    """A tensor for each variable, of its shape and dtype; or a float64 number. It is never saved.

    Args:
        name: Of what it is, in graphs of TF1.
        is_number: Whether it is a number.
    """

    def __init__(self, name: str, *, is_number: bool = False) -> None:
        self._name = name
        self._is_number = is_number
        self._known = graph_state.State(dict)  # by references of the variables

    def of(self, variables: Sequence[Any]) -> list[Any]:
        """The variables that remember something of these ones."""
        with tf.init_scope():
            return [self._of(generations.native(v)) for v in variables]

    def forget(self) -> None:
        """Makes all zero. Eager."""
        for kept in self._known.get().values():
            kept.assign(tf.zeros_like(kept))

    def _of(self, variable: Any) -> Any:
        known = self._known.get()
        if variable.ref() not in known:
            shape = [] if self._is_number else variable.shape
            dtype = tf.float64 if self._is_number else variable.dtype.base_dtype
            known[variable.ref()] = graph_state.variable(
                lambda: tf.zeros(shape, dtype), dtype, self._name, device=None
            )
        return known[variable.ref()]
