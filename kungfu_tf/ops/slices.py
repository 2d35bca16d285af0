"""all_reduce of `tf.IndexedSlices`, the gradients of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import rows, tensors


def check(slices: Any, op: str, what: str) -> None:
    """Makes sure that these slices can be reduced.

    Args:
        slices: What this peer has.
        op: The reduction.
        what: The operation, for messages.

    Raises:
        InvalidArgumentError: `op` is neither "sum" nor "mean".
        UnsupportedTypeError: it is not defined for the dtype, or that cannot travel.
    """
    if op not in ("sum", "mean"):
        raise errors.InvalidArgumentError(
            f"{what}: {op} is not defined for IndexedSlices {tensors.label(slices)}: use sum "
            "or mean"
        )
    tensors.check_reduction(tensors.to_tensor(slices.values, what), op, what, slices.values)
    tensors.to_tensor(slices.indices, what)


def all_reduce_slices(
    slices: Any, op: str, *, tag: str, agree: Sequence[int] = ()
) -> tf.IndexedSlices:
    """The slices of all peers, one behind the other; indices may occur several times, as always.

    Args:
        slices: What this peer has. Peers may have different numbers of slices, none included.
        op: "sum" or "mean".
        tag: The name between peers. A peer that has a dense tensor is met by it, and told.
        agree: What else must be the same on all peers.
    """
    agreed = tf.constant(agree, tf.int64)
    if slices.dense_shape is not None:
        agreed = tf.concat([agreed, tf.cast(slices.dense_shape, tf.int64)], axis=0)
    values, indices = map(tf.convert_to_tensor, (slices.values, slices.indices))
    all_values, lengths = rows.all_gather(values, concat=True, tag=tag, agree=agreed)
    all_indices, _ = rows.all_gather(indices, concat=True, tag=f"{tag}/indices")
    if op == "mean":
        all_values /= tf.cast(tf.size(lengths), all_values.dtype)
    return tf.IndexedSlices(all_values, all_indices, slices.dense_shape)
