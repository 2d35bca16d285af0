"""Collectives on many tensors at once, for the price of one operation.

`kungfu_tf.ops` says what all operations have in common.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.ops import kernels, naming, slices, tensors


@kernels.operation
def group_all_reduce(
    values: Sequence[Any], *, op: str = "sum", name: str | None = None, step: Any = None
) -> list[Any]:
    """Reduces each of many tensors over all peers.

    One operation moves all tensors of one dtype, without copying them together. Differentiable as
    `all_reduce`.

    Args:
        values: Tensors, `tf.IndexedSlices`, and None, which stays None.
        op: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        step: An integer scalar that must be the same on all peers, such as the optimizer's step.

    Returns:
        The results, in the order given, each of the shape of what it was made of.

    Raises:
        InvalidArgumentError: If there is no such `op`, or not for `tf.IndexedSlices`.
        UnsupportedTypeError: If `op` is not defined for the dtype of one of them.
        tf.errors.InvalidArgumentError: If dtypes, shapes, the places of None, `op` or `step` differ
            between peers.

    Example:

    ```python
    gradients = kf.ops.group_all_reduce(tape.gradient(loss, variables), op="mean")
    ```
    """
    what = naming.title("group_all_reduce", name)
    results: list[Any] = [None] * len(values)
    groups = _by_dtype(values, what)
    for group in groups.values():
        for position, tensor in group.items():
            tensors.check_reduction(tensor, op, what, values[position])
    tag = naming.make_tag("group_all_reduce", name)
    the_step = tf.cast(0 if step is None else step, tf.int64)
    for own_tag, group in _tagged(tag, groups):
        outputs = kernels.run(
            "kungfu_group_all_reduce",
            list(group.values()),
            the_step,
            op=op,
            positions=list(group),
            tag=own_tag,
        )
        for position, output in zip(group, outputs, strict=True):
            results[position] = output
    for position, value in enumerate(values):
        if isinstance(value, tf.IndexedSlices):
            make_tag = functools.partial("{}/{}".format, tag, position)
            results[position] = slices.all_reduce_slices(value, op, what, make_tag)
    return results


@kernels.operation
def group_broadcast(values: Sequence[Any], *, root: int = 0, name: str | None = None) -> list[Any]:
    """Gives every peer the tensors of one of them.

    One operation moves all tensors of one dtype. Differentiable as `broadcast`.

    Args:
        values: Tensors, and None, which stays None.
        root: The rank whose tensors they are.
        name: The same on every peer; default by the place in the program.

    Returns:
        The root's tensors, in the order given.

    Raises:
        UnsupportedTypeError: If the dtype of one of them cannot travel.
        tf.errors.InvalidArgumentError: If dtypes, shapes, the places of None or `root` differ
            between peers, or `root` is no rank.

    Example:

    ```python
    for v, value in zip(variables, kf.ops.group_broadcast(variables)):
        v.assign(value)
    ```
    """
    what = naming.title("group_broadcast", name)
    results: list[Any] = [None] * len(values)
    groups = _by_dtype([_dense(value, what) for value in values], what)
    tag = naming.make_tag("group_broadcast", name)
    for own_tag, group in _tagged(tag, groups):
        outputs = kernels.run(
            "kungfu_group_broadcast",
            list(group.values()),
            root=root,
            positions=list(group),
            tag=own_tag,
        )
        for position, output in zip(group, outputs, strict=True):
            results[position] = output
    return results


def _dense(value: Any, what: str) -> Any:
    return None if value is None else tensors.to_tensor(value, what)


def _by_dtype(values: Sequence[Any], what: str) -> dict[Any, dict[int, Any]]:
    """The dense tensors by position, by dtype, in the order of their first appearance."""
    groups: dict[Any, dict[int, Any]] = {}
    for position, value in enumerate(values):
        if value is None or isinstance(value, tf.IndexedSlices):
            continue
        tensor = tensors.to_tensor(value, what)
        groups.setdefault(tensor.dtype.base_dtype, {})[position] = tensor
    return groups


def _tagged(tag: str, groups: dict[Any, dict[int, Any]]) -> list[tuple[str, dict[int, Any]]]:
    """The first dtype has the tag itself, so that peers that disagree on it meet and are told."""
    tags = [tag if i == 0 else f"{tag}/{dtype.name}" for i, dtype in enumerate(groups)]
    return list(zip(tags, groups.values(), strict=True))
