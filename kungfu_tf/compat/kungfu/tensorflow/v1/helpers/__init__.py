"""Readers of data sets' files, and samples for programs that need none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def random_input(sample_shape: Sequence[int], feature_categories: int) -> tuple[Any, Any]:
    """A sample and its label, new ones in each run.

    Args:
        sample_shape: Of the sample, float32 from 0 to 1.
        feature_categories: The label is below this number, int32.
    """
    samples = tf.random.uniform(sample_shape)
    return samples, tf.random.uniform([], 0, feature_categories, tf.int32)
