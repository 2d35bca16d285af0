"""The mean over the peers of sparse rows, the gradients of embeddings, with each index once.

An optimizer that takes rows of one index for several gradients gets them as they are: see
`Algorithm.sums_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.ops import naming, rows


def mean_of_unique_rows(
    mine: Any, variable: Any, *, name: str | None, agree: Sequence[int] = (), op: str = "mean"
) -> tf.IndexedSlices:
    """The mean over the peers, or the sum, with each index once that any of them has.

    The peers first gather their indices: T on all peers together. Let V be the number of rows of
    the variable. Then the rows travel in the cheaper of two ways. Each of `size` peers receives

    - T·(size − 1)/size rows, if the rows are gathered;
    - 2·V·(size − 1)/size rows, if each peer fills a dense tensor, and the tensors are reduced.

    Args:
        mine: This peer's rows, from `unique_rows`; there may be none.
        variable: The variable of which they are rows.
        name: The prefix of the names of the operations; None: by their places in the program.
        agree: Numbers that must be the same on all peers.
        op: "mean" or "sum".
    """

    def called(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"

    tag = naming.make_tag("all_gather", called("indices"))
    agreed = tf.constant(agree, tf.int64)
    indices, lengths = rows.all_gather(mine.indices, concat=True, tag=tag, agree=agreed)
    union, places = tf.unique(indices)

    def gathered() -> Any:
        values = ops.all_gather(mine.values, concat=True, name=called("values"))
        sums = tf.math.unsorted_segment_sum(values, places, tf.size(union))
        return sums / tf.cast(tf.size(lengths), sums.dtype) if op == "mean" else sums

    def reduced() -> Any:
        dense = tf.math.unsorted_segment_sum(mine.values, mine.indices, height)
        return tf.gather(ops.all_reduce(dense, op=op, name=called("dense")), union)

    height = variable.shape.as_list()[0]
    if height is None:
        return tf.IndexedSlices(gathered(), union, mine.dense_shape)
    is_most = tf.greater_equal(tf.size(indices), 2 * height)
    values = tf.cond(is_most, reduced, gathered)
    return tf.IndexedSlices(values, union, mine.dense_shape)
