"""What collectives return in a process that is alone: nothing travels, and no peer is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops.scaling import times

_ITSELF = {
    f"kungfu_{name}"
    for name in ("all_reduce", "broadcast", "reduce", "reduce_scatter", "subset_all_reduce")
}
_GROUPS = {"kungfu_group_all_reduce", "kungfu_group_broadcast"}
_ROWS = {"kungfu_all_gather", "kungfu_gather", "kungfu_all_to_all"}


def outputs(kernel: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The outputs of a kernel there.

    Args:
        kernel: The function of the op library.
        inputs: Its inputs.
        attributes: Its attributes.

    Raises:
        UnimplementedError: If it has no meaning there.
    """
    given = inputs[0]
    if kernel in _ITSELF:
        return tf.identity(given)
    if kernel in _GROUPS:
        return [tf.identity(tensor) for tensor in given]
    if kernel == "kungfu_group_neighbor_all_reduce":
        return [times(tensor, inputs[1]) for tensor in given]
    if kernel in _ROWS:
        is_stacked = not attributes.get("concat", True)
        rows = given[tf.newaxis] if is_stacked or not given.shape.rank else tf.identity(given)
        return rows, tf.shape(rows, tf.int64)[:1]
    if kernel == "kungfu_neighbor_all_gather":
        is_stacked = not attributes.get("concat", True)
        rows = given[tf.newaxis] if is_stacked or not given.shape.rank else given
        return rows[:0], tf.zeros([0], tf.int64)
    if kernel == "kungfu_consensus":
        return tf.constant(value=True)
    raise errors.UnimplementedError(
        f"{kernel.removeprefix('kungfu_')} cannot be done by one peer alone"
    )
