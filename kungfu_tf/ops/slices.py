"""all_reduce of `tf.IndexedSlices`, the gradients of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import rows, tensors


def all_reduce_slices(
    slices: Any, op: str, what: str, make_tag: Callable[[], str]
) -> tf.IndexedSlices:
    """The slices of all peers, one behind the other; indices may occur several times, as always.

    Args:
        slices: What this peer has. Peers may have different numbers of slices, none included.
        op: "sum" or "mean".
        what: The operation, for messages.
        make_tag: Makes the name between peers, once the arguments are found good.

    Raises:
        InvalidArgumentError: another `op`.
        UnsupportedTypeError: it is not defined for the dtype.
    """
    if op not in ("sum", "mean"):
        raise errors.InvalidArgumentError(
            f"{what}: {op} is not defined for IndexedSlices {tensors.label(slices)}: use sum "
            "or mean"
        )
    values = tensors.to_tensor(slices.values, what)
    indices = tensors.to_tensor(slices.indices, what)
    tensors.check_reduction(values, op, what, slices.values)
    agree = None
    if slices.dense_shape is not None:
        agree = tf.cast(slices.dense_shape, tf.int64)
    tag = make_tag()
    all_values, lengths = rows.all_gather(values, concat=True, tag=f"{tag}/values", agree=agree)
    all_indices, _ = rows.all_gather(indices, concat=True, tag=f"{tag}/indices")
    if op == "mean":
        all_values /= tf.cast(tf.size(lengths), all_values.dtype)
    return tf.IndexedSlices(all_values, all_indices, slices.dense_shape)
