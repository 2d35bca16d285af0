"""The norms of gradients, measured while they are exchanged."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.ops import norms


class Norms:
    """The squared norms of one step's gradients, added up over its buckets.

    There are two: the mean over the peers of |g|², and |mean over the peers of g|².

    Args:
        wanted: Whether this peer wants them, a bool scalar. If one peer does not, they are NaN.
    """

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self._own: list[Any] = []
        self._mean: list[Any] = []

    def add(self, own: Any, mean: Any) -> None:
        """Adds the two norms of a bucket, float64 scalars."""
        self._own.append(own)
        self._mean.append(mean)

    def of_sparse(self, mine: Any) -> Any:
        """|g|² of this peer's sparse rows, a float64 scalar.

        The exchange of dense tensors measures their norms. That of sparse rows does not.
        """
        return norms.squared_norm([mine], wanted=self.wanted)

    def add_sparse(self, own: Any, mean: Any) -> None:
        """Adds the two norms of sparse rows.

        Args:
            own: The mean over the peers of `of_sparse`.
            mean: The mean of the sparse rows, whose norm is still to be computed.
        """
        self.add(own, norms.squared_norm([mean], wanted=tf.math.is_finite(own)))

    def totals(self) -> tuple[Any, Any]:
        """The sums of the two norms over all buckets."""
        return tf.add_n(self._own), tf.add_n(self._mean)
