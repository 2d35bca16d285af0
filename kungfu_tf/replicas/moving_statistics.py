"""Moving statistics of all peers' batches."""

from __future__ import annotations

from typing import Any

from kungfu_tf.replicas import average


def average_statistics(model: Any) -> None:
    """Gives all peers the mean of their moving statistics, bitwise the same. Eager."""
    average.assign_means(list(average.moving_statistics(model)), name="average_statistics")
