"""The norms of gradients, measured while they are exchanged."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.ops import norms


class Norms:
    """|g|² of one step, added up over its buckets: of the peers' gradients, and of their mean.

    Args:
        wanted: Whether this peer wants them, a bool scalar. Where one does not they are NaN.
    """

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self._own: list[Any] = []
        self._mean: list[Any] = []

    def add(self, own: Any, mean: Any) -> None:
        """Adds those of a bucket, float64 scalars: mean over the peers of |g|²; |mean g|²."""
        self._own.append(own)
        self._mean.append(mean)

    def of_slices(self, slices: Any) -> Any:
        """|g|² of this peer's `tf.IndexedSlices`, a float64 scalar.

        Their exchange does not measure norms, as that of dense tensors does.
        """
        return norms.squared_norm([slices], wanted=self.wanted)

    def add_slices(self, own: Any, mean: Any) -> None:
        """Adds those of `tf.IndexedSlices`.

        Args:
            own: The mean over the peers of `of_slices`.
            mean: The mean of the `tf.IndexedSlices` themselves.
        """
        self.add(own, norms.squared_norm([mean], wanted=tf.math.is_finite(own)))

    def totals(self) -> tuple[Any, Any]:
        """Both sums, of all that was added."""
        return tf.add_n(self._own), tf.add_n(self._mean)
