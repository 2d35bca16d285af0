"""all_reduce of sparse rows: `tf.IndexedSlices`, the gradients of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import rows, tensors


def check(sparse: Any, op: str, what: str) -> None:
    """Checks that sparse rows can be reduced.

    Args:
        sparse: The sparse rows of this peer.
        op: The reduction.
        what: The operation, for messages.

    Raises:
        InvalidArgumentError: If `op` is neither "sum" nor "mean".
        UnsupportedTypeError: If `op` is not defined for the dtype, or the dtype cannot be sent.
    """
    if op not in ("sum", "mean"):
        raise errors.InvalidArgumentError(
            f"{what}: {op} is not defined for IndexedSlices {tensors.label(sparse)}: use sum "
            "or mean"
        )
    tensors.check_reduction(tensors.to_tensor(sparse.values, what), op, what, sparse.values)
    tensors.to_tensor(sparse.indices, what)


def all_reduce_rows(
    sparse: Any, op: str, *, tag: str, agree: Sequence[int] = ()
) -> tf.IndexedSlices:
    """Returns the sparse rows of all peers; an index may occur several times.

    Args:
        sparse: The sparse rows of this peer. Their number may differ between peers, and may be 0.
        op: "sum" or "mean".
        tag: The name by which peers match it. A peer with a dense tensor uses the same one, and
            gets an error.
        agree: Numbers that must also be the same on all peers.
    """
    agreed = tf.constant(agree, tf.int64)
    if sparse.dense_shape is not None:
        agreed = tf.concat([agreed, tf.cast(sparse.dense_shape, tf.int64)], axis=0)
    values, indices = map(tf.convert_to_tensor, (sparse.values, sparse.indices))
    all_values, lengths = rows.all_gather(values, concat=True, tag=tag, agree=agreed)
    all_indices, _ = rows.all_gather(indices, concat=True, tag=f"{tag}/indices")
    if op == "mean" and all_values.dtype.is_integer:
        all_values, all_indices = _means_of_integers(all_values, all_indices, tf.size(lengths))
    elif op == "mean":
        all_values /= tf.cast(tf.size(lengths), all_values.dtype)
    return tf.IndexedSlices(all_values, all_indices, sparse.dense_shape)


def _means_of_integers(values: Any, indices: Any, size: Any) -> tuple[Any, Any]:
    """The means of rows, cut off once: those of one index are first added, in 64 bits."""
    wide = tf.uint64 if values.dtype.is_unsigned else tf.int64
    unique, places = tf.unique(indices)
    sums = tf.math.unsorted_segment_sum(tf.cast(values, wide), places, tf.size(unique))
    return tf.cast(tf.truncatediv(sums, tf.cast(size, wide)), values.dtype), unique
