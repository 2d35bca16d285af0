"""Collectives on many tensors at once, at the price of one operation.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import kernels, members, naming, sparse_reduction, tensors
from kungfu_tf.ops.scaling import scaled


@kernels.operation
def group_all_reduce(
    values: Sequence[Any],
    *,
    op: str = "sum",
    prescale: float = 1.0,
    postscale: float = 1.0,
    name: str | None = None,
    step: Any = None,
    group: Group | None = None,
) -> list[Any]:
    """Reduces each of many tensors over all peers.

    One operation moves all tensors of a dtype, without copying them together. Differentiable as
    `all_reduce` is. If all are None, the peers still meet. Variables among the values must have the
    same names on all peers, except for numbers.

    Args:
        values: Tensors, `tf.IndexedSlices`, and None, which stays None.
        op: As for `all_reduce`.
        prescale: As for `all_reduce`.
        postscale: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        step: An integer scalar that must be the same on all peers, such as the optimizer's step.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The results, in the order of the inputs and of their shapes.

    Raises:
        InvalidArgumentError: If there is no such `op`, or not for `tf.IndexedSlices`.
        UnsupportedTypeError: If `op` or a factor is not defined for the dtype of one of them.
        tf.errors.InvalidArgumentError: If dtypes, shapes, the places of None, `op`, `step` or
            the names of variables differ between peers.

    Example:

    ```python
    gradients = kf.ops.group_all_reduce(tape.gradient(loss, variables), op="mean")
    ```
    """
    with groups.among(group):

        def of(agree: Sequence[int]) -> list[Any]:
            sent = [scaled(value, prescale) for value in values]
            results = agreed_all_reduce(sent, op=op, name=name, step=step, agree=agree)
            return [scaled(result, postscale) for result in results]

        return _of_same_variables(values, of, naming.title("group_all_reduce", name))


@kernels.operation
def agreed_all_reduce(
    values: Sequence[Any],
    *,
    op: str,
    name: str | None,
    step: Any = None,
    agree: Sequence[int] = (),
    exchange: kernels.Exchange | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> list[Any]:
    """`group_all_reduce`, which also checks that the peers have the same numbers.

    Args:
        values: As for `group_all_reduce`.
        op: As for `group_all_reduce`.
        name: As for `group_all_reduce`.
        step: As for `group_all_reduce`.
        agree: Integers from 0 to 2³¹ − 1. Only a digest of them is sent.
        exchange: The operations that end together with this one, which has tensors of one dtype.
        attributes: Other attributes of the operations.
    """
    what = naming.title("group_all_reduce", name)
    groups, layout = laid_out(values, what, agree)
    sparse = [i for i, value in enumerate(values) if isinstance(value, tf.IndexedSlices)]
    for group in groups:
        for position, tensor in group.items():
            tensors.check_reduction(tensor, op, what, [*values, tensor][position])
    for position in sparse:
        sparse_reduction.check(values[position], op, what)
    tags = tags_of(naming.make_tag("group_all_reduce", name), [*map(min, groups), *sparse])
    the_step = tf.cast(0 if step is None else step, tf.int64)
    results: dict[int, Any] = {}
    for group in groups:
        outputs = kernels.run(
            "kungfu_group_all_reduce",
            list(group.values()),
            the_step,
            op=op,
            positions=layout,
            tag=tags[min(group)],
            **kernels.exchange_of(exchange, tags[min(group)]),
            **(attributes or {}),
        )
        results.update(zip(group, outputs, strict=True))
    for position in sparse:
        results[position] = sparse_reduction.all_reduce_rows(
            values[position], op, tag=tags[position], agree=layout
        )
    return [results.get(position) for position in range(len(values))]


@kernels.operation
def group_broadcast(
    values: Sequence[Any], *, root: int = 0, name: str | None = None, group: Group | None = None
) -> list[Any]:
    """Gives every peer the tensors of one of them.

    One operation moves all tensors of a dtype. Differentiable as `broadcast` is.

    Args:
        values: Tensors, and None, which stays None.
        root: The rank whose tensors they are.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The root's tensors, in the order given.

    Raises:
        UnsupportedTypeError: If the dtype of one of them cannot be sent.
        tf.errors.InvalidArgumentError: If dtypes, shapes, the places of None, `root` or the
            names of variables differ between peers, or `root` is no rank.

    Example:

    ```python
    for v, value in zip(variables, kf.ops.group_broadcast(variables)):
        v.assign(value)
    ```
    """
    with groups.among(group):

        def of(agree: Sequence[int]) -> list[Any]:
            return agreed_broadcast(values, root=root, name=name, agree=agree)

        return _of_same_variables(values, of, naming.title("group_broadcast", name))


@kernels.operation
def agreed_broadcast(
    values: Sequence[Any], *, root: int, name: str | None, agree: Sequence[int] = ()
) -> list[Any]:
    """`group_broadcast`, which also checks numbers as `agreed_all_reduce` does."""
    what = naming.title("group_broadcast", name)
    groups, layout = laid_out([dense(value, what) for value in values], what, agree)
    tags = tags_of(naming.make_tag("group_broadcast", name), list(map(min, groups)))
    results: dict[int, Any] = {}
    for group in groups:
        outputs = kernels.run(
            "kungfu_group_broadcast",
            list(group.values()),
            root=root,
            positions=layout,
            tag=tags[min(group)],
        )
        results.update(zip(group, outputs, strict=True))
    return [results.get(position) for position in range(len(values))]


def _of_same_variables(
    values: Sequence[Any], run: Callable[[Sequence[int]], list[Any]], what: str
) -> list[Any]:
    """Runs an operation; the variables among its values must be the same on all peers."""
    agree = identities(values)
    if not agree:
        return run([])
    try:
        return run(agree)
    except tf.errors.InvalidArgumentError:  # in eager code, on all peers
        members.check_same([v for v in values if members.is_variable(v)], name=what)
        raise


def identities(values: Sequence[Any]) -> list[int]:
    """The numbers on which the peers must agree to have the same variables among the values."""
    variables = [value for value in values if members.is_variable(value)]
    return [members.identity(variables)] if variables else []


def dense(value: Any, what: str) -> Any:
    """`value` as a dense tensor that can be sent; None stays None."""
    return None if value is None else tensors.to_tensor(value, what)


def laid_out(
    values: Sequence[Any], what: str, agree: Sequence[int]
) -> tuple[list[dict[int, Any]], list[int]]:
    """Returns the dense tensors by position, grouped by dtype, and what peers must agree on.

    They must agree on a code for each position, and on the numbers of `agree`. If there is nothing
    to send, an empty tensor, behind the last position, meets peers that have something.
    """
    groups: dict[Any, dict[int, Any]] = {}
    layout = []
    for position, value in enumerate(values):
        if value is None:
            layout.append(0)
        elif isinstance(value, tf.IndexedSlices):
            layout.append(-value.dtype.as_datatype_enum)
        else:
            tensor = tensors.to_tensor(value, what)
            dtype = tensor.dtype.base_dtype
            groups.setdefault(dtype, {})[position] = tensor
            layout.append(dtype.as_datatype_enum)
    if not any(layout):
        return [{len(values): tf.zeros([0])}], [*layout, *agree]
    return list(groups.values()), [*layout, *agree]


def tags_of(tag: str, positions: Sequence[int]) -> dict[int, str]:
    """The tags of the operations that begin with the values at these positions.

    The first operation always has the tag itself. So peers that differ anywhere meet there, and
    each operation compares the whole layout.
    """
    later = {position: f"{tag}[{position}]" for position in positions[1:]}
    return {positions[0]: tag, **later}
