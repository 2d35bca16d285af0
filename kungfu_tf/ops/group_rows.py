"""Collectives that move rows, on many tensors at once.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf import errors, groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import collective, kernels, naming


@kernels.operation
def group_all_gather(
    values: Sequence[Any],
    *,
    concat: bool = False,
    name: str | None = None,
    group: Group | None = None,
) -> list[Any]:
    """`all_gather` of each of many tensors. In a graph they travel at the same time.

    Args:
        values: Tensors, as many on every peer.
        concat: As for `all_gather`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        What `all_gather` returns for each of them, in the order given.

    Raises:
        UnsupportedTypeError: As from `all_gather`.
        tf.errors.InvalidArgumentError: As from `all_gather`.
        tf.errors.DeadlineExceededError: If a peer has fewer tensors.

    Example:

    ```python
    images, labels = kf.ops.group_all_gather([images, labels], concat=True)
    ```
    """

    def one(value: Any, name: str) -> Any:
        return collective.all_gather(value, concat=concat, name=name, group=group)

    return _each(one, values, "group_all_gather", name, group)


@kernels.operation
def group_reduce_scatter(
    values: Sequence[Any],
    *,
    op: str = "sum",
    prescale: float = 1.0,
    postscale: float = 1.0,
    name: str | None = None,
    group: Group | None = None,
) -> list[Any]:
    """`reduce_scatter` of each of many tensors. In a graph they travel at the same time.

    Args:
        values: Tensors, as many on every peer.
        op: As for `all_reduce`.
        prescale: As for `all_reduce`.
        postscale: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        What `reduce_scatter` returns for each of them, in the order given.

    Raises:
        InvalidArgumentError: As from `reduce_scatter`.
        UnsupportedTypeError: As from `reduce_scatter`.
        tf.errors.InvalidArgumentError: As from `reduce_scatter`.
        tf.errors.DeadlineExceededError: If a peer has fewer tensors.

    Example:

    ```python
    shards = kf.ops.group_reduce_scatter(gradients, op="mean")
    ```
    """

    def one(value: Any, name: str) -> Any:
        return collective.reduce_scatter(
            value, op=op, prescale=prescale, postscale=postscale, name=name, group=group
        )

    return _each(one, values, "group_reduce_scatter", name, group)


@kernels.operation
def group_all_to_all(
    values: Sequence[Any],
    *,
    splits: Sequence[Any] | None = None,
    return_splits: bool = False,
    name: str | None = None,
    group: Group | None = None,
) -> list[Any]:
    """`all_to_all` of each of many tensors. In a graph they travel at the same time.

    Args:
        values: Tensors, as many on every peer.
        splits: For each of them as for `all_to_all`. Default: even parts of all.
        return_splits: As for `all_to_all`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        What `all_to_all` returns for each of them, in the order given.

    Raises:
        InvalidArgumentError: If there are not as many `splits` as tensors.
        UnsupportedTypeError: As from `all_to_all`.
        tf.errors.InvalidArgumentError: As from `all_to_all`.
        tf.errors.DeadlineExceededError: If a peer has fewer tensors.

    Example:

    ```python
    keys, rows = kf.ops.group_all_to_all([keys, rows], splits=[counts, counts])
    ```
    """
    if splits is not None and len(splits) != len(values):
        raise errors.InvalidArgumentError(
            f"{naming.title('group_all_to_all', name)}: {len(splits)} splits for "
            f"{len(values)} tensors"
        )
    of = [None] * len(values) if splits is None else splits

    def one(value_and_splits: tuple[Any, Any], name: str) -> Any:
        value, parts = value_and_splits
        return collective.all_to_all(
            value, splits=parts, return_splits=return_splits, name=name, group=group
        )

    return _each(one, list(zip(values, of, strict=True)), "group_all_to_all", name, group)


def _each(
    run: Callable[[Any, str], Any],
    values: Sequence[Any],
    op: str,
    name: str | None,
    group: Group | None,
) -> list[Any]:
    """Runs an operation for each value, under a name of its own."""
    with groups.among(group):
        tag = naming.make_tag(op, name)
    return [run(value, f"{tag}[{i}]") for i, value in enumerate(values)]
