"""Looks at the first batch before the first step takes it."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import tensorflow as tf


def look_at(iterator: Any, steps: int) -> tuple[Any, Any]:
    """The first batch, and an iterator that still has it.

    Args:
        iterator: The argument of a train function.
        steps: How many batches one call of the train function takes at most.

    Returns:
        The batch, and an iterator for that call. The batch is None if there is none, or if the
        iterator is one of `tf.distribute`.
    """
    if isinstance(iterator, tf.data.Iterator):
        batches = list(itertools.islice(iterator, steps))
        return (batches[0], _again(batches, iterator)) if batches else (None, iterator)
    if hasattr(iterator, "element_spec"):
        return None, iterator
    batches = list(itertools.islice(iterator, 1))
    return batches[0] if batches else None, itertools.chain(batches, iterator)


def _again(batches: list[Any], iterator: Any) -> Any:
    """An iterator of batches for which the train function is not traced anew."""
    each = map(tf.data.Dataset.from_tensors, batches)
    dataset = functools.reduce(lambda some, more: some.concatenate(more), each)
    variant = tf.data.experimental.to_variant(dataset)
    return iter(tf.data.experimental.from_variant(variant, structure=iterator.element_spec))
