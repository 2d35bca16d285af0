"""Collectives that outlive a step: begun in one, and ended in a later one.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import group as group_operations
from kungfu_tf.ops import kernels, naming, tensors
from kungfu_tf.ops.neighborhood import neighborhood
from kungfu_tf.topology import Topology


@kernels.operation
def begin_group_all_reduce(
    values: Sequence[Any],
    *,
    name: str,
    op: str = "sum",
    step: Any = None,
    group: Group | None = None,
) -> list[Any]:
    """Begins a `group_all_reduce`, and does not wait for it. `end_group_all_reduce` does.

    What it sends travels while the program goes on, in this step and in later ones. The values are
    those of now: variables among them may change. In a `tf.function` it runs in program order with
    all operations that have side effects. It is not differentiable.

    All peers begin it, and all end it, in the same steps. Before it has ended none of its name can
    be begun. `set_strategy` waits for it, and peers cannot come or go. If a peer is lost meanwhile,
    its end is an error; with `kungfu-run -on-failure survive` the results are the survivors'.

    Args:
        values: Tensors, of shapes that `end_group_all_reduce` is told.
        name: The same on every peer, and for the end.
        op: As for `all_reduce`.
        step: An integer scalar that must be the same on all peers, such as the optimizer's step.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The operations, in a graph; in eager code None in their place.

    Raises:
        InvalidArgumentError: If there is no such `op`.
        UnsupportedTypeError: If `op` is not defined for the dtype of one of them.
        tf.errors.FailedPreconditionError: If one of that name has not ended.

    Example:

    ```python
    kf.ops.begin_group_all_reduce([moved], op="mean", name="outer")
    train()
    [mean] = kf.ops.end_group_all_reduce([tf.TensorSpec.from_tensor(moved)], name="outer")
    ```
    """
    with groups.among(group):
        return begin_agreed_all_reduce(values, name=name, op=op, step=step)


@kernels.operation
def begin_group_neighbor_all_reduce(
    values: Sequence[Any],
    *,
    name: str,
    topology: Topology | None = None,
    step: Any = 0,
    self_weight: Any = None,
    src_weights: Any = None,
    dst_weights: Any = None,
    group: Group | None = None,
) -> list[Any]:
    """Begins a `group_neighbor_all_reduce`, and does not wait for it.

    `end_group_all_reduce` waits for it, and returns its results. It is as `begin_group_all_reduce`,
    but not for jobs of `-on-failure survive`.

    Args:
        values: Floating or complex tensors, of shapes that `end_group_all_reduce` is told.
        name: The same on every peer, and for the end.
        topology: As for `neighbor_all_reduce`, as the next.
        step: Which matrix of the topology's cycle it is.
        self_weight: The weight of this peer's tensors.
        src_weights: The ranks that it takes from.
        dst_weights: The ranks that take from it.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The operations, in a graph; in eager code None in their place.

    Raises:
        InvalidArgumentError: As from `neighbor_all_reduce`.
        UnsupportedTypeError: If a tensor is not floating or complex.
        tf.errors.FailedPreconditionError: If one of that name has not ended.
        tf.errors.InvalidArgumentError: If there are more weights than ranks, or fewer.

    Example:

    ```python
    kf.ops.begin_group_neighbor_all_reduce([x], step=step, name="model")
    train()
    [mixed] = kf.ops.end_group_all_reduce([tf.TensorSpec.from_tensor(x)], name="model")
    ```
    """
    with groups.among(group):
        what = naming.title("begin_group_neighbor_all_reduce", name)
        kernels.check_graph(what)
        near = neighborhood(what, topology, step, self_weight, src_weights, dst_weights)
        for value in values:
            tensors.check_fractions(
                tensors.to_tensor(value, what), f"{what}: a weighted sum", value
            )
        agree = group_operations.identities(values)
        by_dtype, layout = group_operations.laid_out(values, what, agree)
        tags = group_operations.tags_of(name, list(map(min, by_dtype)))
        return [
            kernels.library().kungfu_begin_group_neighbor_all_reduce(
                list(of_dtype.values()),
                *near.inputs(),
                positions=layout,
                **kernels.named(tags[min(of_dtype)]),
                **kernels.of_group(),
            )
            for of_dtype in by_dtype
        ]


@kernels.operation
def begin_agreed_all_reduce(
    values: Sequence[Any], *, name: str, op: str, step: Any = None, agree: Sequence[int] = ()
) -> list[Any]:
    """`begin_group_all_reduce`, which also checks that the peers have the same numbers.

    Args:
        values: As for `begin_group_all_reduce`.
        name: As for `begin_group_all_reduce`.
        op: As for `begin_group_all_reduce`.
        step: As for `begin_group_all_reduce`.
        agree: Integers from 0 to 2³¹ − 1. Only a digest of them is sent.
    """
    what = naming.title("begin_group_all_reduce", name)
    kernels.check_graph(what)
    by_dtype, layout = group_operations.laid_out(values, what, agree)
    tags = group_operations.tags_of(name, list(map(min, by_dtype)))
    for value in values:
        tensors.check_reduction(tensors.to_tensor(value, what), op, what, value)
    return [
        kernels.library().kungfu_begin_group_all_reduce(
            list(of_dtype.values()),
            tf.cast(0 if step is None else step, tf.int64),
            op=op,
            positions=layout,
            **kernels.named(tags[min(of_dtype)]),
            **kernels.of_group(),
        )
        for of_dtype in by_dtype
    ]


@kernels.operation
def end_group_all_reduce(
    specs: Sequence[Any], *, name: str, group: Group | None = None
) -> list[Any]:
    """Returns the results of a `begin_group_all_reduce`, or `begin_group_neighbor_all_reduce`.

    It waits until they are here.

    Args:
        specs: For each of its values a `tf.TensorSpec`, or anything with a shape and a dtype.
        name: Its name.
        group: Its group.

    Returns:
        The results, in the order of the values and of their shapes.

    Raises:
        tf.errors.FailedPreconditionError: If none of that name was begun by this process; or one of
            neighbours, in a job that survives lost peers.
        tf.errors.InvalidArgumentError: If it was begun with other shapes or dtypes; or if dtypes,
            shapes, `op` or `step` differ between peers.
        tf.errors.DeadlineExceededError: If a peer did not begin it within KUNGFU_COLLECTIVE_TIMEOUT
            seconds of its beginning here.
        tf.errors.UnavailableError: If a peer is gone.
    """
    with groups.among(group):
        return _end(specs, name)


def drop(prefix: str) -> None:
    """Cancels what was begun under names with this prefix, and has not ended. Eager.

    After an error it makes the names free again. All peers call it.
    """
    kernels.library().kungfu_drop_begun(prefix=prefix, **kernels.of_group())


def _end(specs: Sequence[Any], name: str) -> list[Any]:
    kernels.check_graph(naming.title("end_group_all_reduce", name))
    by_dtype: dict[Any, list[int]] = {}
    for position, spec in enumerate(specs):
        by_dtype.setdefault(tf.as_dtype(spec.dtype).base_dtype, []).append(position)
    tags = group_operations.tags_of(name, [positions[0] for positions in by_dtype.values()])
    results: dict[int, Any] = {}
    for dtype, positions in by_dtype.items():
        outputs = kernels.library().kungfu_end_group_all_reduce(
            T=dtype,
            N=len(positions),
            **kernels.named(tags[positions[0]]),
            shapes=[specs[position].shape for position in positions],
            **kernels.of_group(),
        )
        results.update(zip(positions, outputs, strict=True))
    return [results[position] for position in range(len(specs))]
