"""Sparse gradients: the rows of a variable that a step has touched, as `tf.IndexedSlices`.

Here each row occurs once. An optimizer that treats duplicate rows as several gradients gets them as
they are: see `Algorithm.sums_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.ops import naming, rows


def rows_once(slices: Any) -> tf.IndexedSlices:
    """The same gradient, in which each row occurs once."""
    indices, places = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def mean_rows(
    slices: Any, variable: Any, *, name: str | None, agree: Sequence[int] = ()
) -> tf.IndexedSlices:
    """The mean over the peers, with each row once that any of them has.

    The peers tell each other which rows they have. Let these be T together, and V those of the
    variable. Of `size` peers each receives, the less of both:

    - T·(size − 1)/size rows, if the rows are gathered;
    - 2·V·(size − 1)/size rows, if they are put into a dense tensor, and that is reduced.

    Args:
        slices: The rows of this peer, from `rows_once`; there may be none.
        variable: The variable of which they are rows.
        name: What the names of the operations begin with; None: they name themselves.
        agree: Numbers that must be the same on all peers.
    """

    def called(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"

    tag = naming.make_tag("all_gather", called("indices"))
    agreed = tf.constant(agree, tf.int64)
    indices, _ = rows.all_gather(slices.indices, concat=True, tag=tag, agree=agreed)
    union, places = tf.unique(indices)

    def gathered() -> Any:
        values = ops.all_gather(slices.values, concat=True, name=called("values"))
        sums = tf.math.unsorted_segment_sum(values, places, tf.size(union))
        return sums / tf.cast(ops.cluster_size(), sums.dtype)

    def reduced() -> Any:
        dense = tf.math.unsorted_segment_sum(slices.values, slices.indices, height)
        return tf.gather(ops.all_reduce(dense, op="mean", name=called("dense")), union)

    height = variable.shape.as_list()[0]
    if height is None:
        return tf.IndexedSlices(gathered(), union, slices.dense_shape)
    is_most = tf.greater_equal(tf.size(indices), 2 * height)
    values = tf.cond(is_most, reduced, gathered)
    return tf.IndexedSlices(values, union, slices.dense_shape)
