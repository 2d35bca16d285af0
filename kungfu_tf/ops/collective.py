"""Collectives on one tensor. `kungfu_tf.ops` describes what all operations have in common."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import kernels, naming, rows, sparse_reduction, tensors
from kungfu_tf.ops.scaling import scaled


@kernels.operation
def all_reduce(
    tensor: Any,
    *,
    op: str = "sum",
    prescale: float = 1.0,
    postscale: float = 1.0,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Reduces a tensor over all peers; each of them gets the result.

    `y = postscale · (prescale · x₀ + prescale · x₁ + ...)`. Differentiable for sum and mean.

    Args:
        tensor: A tensor, or sparse rows (`tf.IndexedSlices`), of which the result has those of all
            peers. Their number may differ between peers, and `op` must be sum or mean. For means of
            integers, rows of one index are added first.
        op: "sum", "mean", "min", "max" or "prod". For bool, min is all and max is any.
        prescale: What each peer multiplies its elements by before the reduction. Integers are
            multiplied in float64 and cut off, float16 and bfloat16 in float32.
        postscale: What the result is multiplied by, likewise.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        A tensor of the same shape, or `tf.IndexedSlices` of the same dense shape.

    Raises:
        InvalidArgumentError: If there is no such `op`, or not for `tf.IndexedSlices`.
        UnsupportedTypeError: If `op` or a factor is not defined for the dtype.
        tf.errors.InvalidArgumentError: If dtype, shape (of sparse rows: the dense shape, if known)
            or `op` differ between peers, or only some have sparse rows.

    Example:

    ```python
    loss = kf.ops.all_reduce(loss, op="mean")
    ```
    """
    with groups.among(group):
        what = naming.title("all_reduce", name)
        tag = naming.make_tag("all_reduce", name)
        if isinstance(tensor, tf.IndexedSlices):
            sparse_reduction.check(tensor, op, what)
            sent = scaled(tensor, prescale)
            return scaled(sparse_reduction.all_reduce_rows(sent, op, tag=tag), postscale)
        x = tensors.to_tensor(tensor, what)
        tensors.check_reduction(x, op, what, tensor)
        result = kernels.run("kungfu_all_reduce", scaled(x, prescale), op=op, tag=tag)
        return scaled(result, postscale)


@kernels.operation
def broadcast(
    tensor: Any, *, root: int = 0, name: str | None = None, group: Group | None = None
) -> Any:
    """Gives every peer the tensor of one of them.

    Differentiable: the root gets the sum of all gradients, the others zeros.

    Args:
        tensor: A tensor; only its shape and dtype count, except on the root.
        root: The rank whose tensor all peers get.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The root's tensor.

    Raises:
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: If dtype, shape or `root` differ between peers, or `root` is
            no rank.

    Example:

    ```python
    seed = kf.ops.broadcast(tf.random.uniform([], maxval=1 << 30, dtype=tf.int64))
    ```
    """
    with groups.among(group):
        x = tensors.to_tensor(tensor, naming.title("broadcast", name))
        tag = naming.make_tag("broadcast", name)
        return kernels.run("kungfu_broadcast", x, root=root, tag=tag)


@kernels.operation
def reduce(
    tensor: Any, op: str, *, root: int = 0, name: str | None = None, group: Group | None = None
) -> Any:
    """Reduces a tensor over all peers; one of them gets the result.

    Differentiable for sum and mean.

    Args:
        tensor: A tensor.
        op: As for `all_reduce`.
        root: The rank that gets the result.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        A tensor of the same shape: the result on the root, zeros elsewhere.

    Raises:
        InvalidArgumentError: If there is no such `op`.
        UnsupportedTypeError: If `op` is not defined for the dtype.
        tf.errors.InvalidArgumentError: If dtype, shape, `op` or `root` differ between peers, or
            `root` is no rank.

    Example:

    ```python
    total = kf.ops.reduce(tf.reduce_sum(errors), "sum")
    if kf.is_root():
        print(total.numpy())
    ```
    """
    with groups.among(group):
        what = naming.title("reduce", name)
        x = tensors.to_tensor(tensor, what)
        tensors.check_reduction(x, op, what, tensor)
        return kernels.run(
            "kungfu_reduce", x, op=op, root=root, tag=naming.make_tag("reduce", name)
        )


@kernels.operation
def all_gather(
    tensor: Any, *, concat: bool = False, name: str | None = None, group: Group | None = None
) -> Any:
    """Gives every peer the tensors of all peers, in the order of their ranks.

    Differentiable: each peer gets the sum of the gradients of its part.

    Args:
        tensor: A tensor.
        concat: False stacks tensors of one shape to [size, ...]. True concatenates them along their
            first axis, whose length may differ between peers. A scalar counts as an array of one.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        All tensors in one, [size, ...] or [sum of the lengths, ...]. Its first dimension is unknown
        in a graph.

    Raises:
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: If dtype, shape (with `concat`, except for the first axis)
            or `concat` differ between peers; or if rows to be concatenated have no elements.

    Example:

    ```python
    losses = kf.ops.all_gather(loss)                       # [size]
    predictions = kf.ops.all_gather(mine, concat=True)     # of all peers
    ```
    """
    with groups.among(group):
        x = tensors.to_tensor(tensor, naming.title("all_gather", name))
        return rows.all_gather(x, concat=concat, tag=naming.make_tag("all_gather", name))[0]


@kernels.operation
def gather(
    tensor: Any,
    *,
    root: int = 0,
    concat: bool = False,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Gives one peer the tensors of all peers, in the order of their ranks.

    Differentiable: each peer gets the root's gradient of its part.

    Args:
        tensor: A tensor.
        root: The rank that gets them.
        concat: As for `all_gather`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        On the root the result of `all_gather`; elsewhere a tensor without rows, [0, ...].

    Raises:
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: As from `all_gather`; or `root` differs between peers, or is
            no rank.

    Example:

    ```python
    norms = kf.ops.gather(tf.norm(gradient))     # [size] on rank 0, [0] elsewhere
    ```
    """
    with groups.among(group):
        x = tensors.to_tensor(tensor, naming.title("gather", name))
        tag = naming.make_tag("gather", name)
        return rows.gather(x, root=root, concat=concat, tag=tag)[0]


@kernels.operation
def reduce_scatter(
    tensor: Any,
    *,
    op: str = "sum",
    prescale: float = 1.0,
    postscale: float = 1.0,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Reduces a tensor over all peers; each of them gets its rows of the result.

    The rows are cut into even parts, as `numpy.array_split` does. If the number of peers does not
    divide them, the first parts have one more row.

    Differentiable for sum and mean.

    Args:
        tensor: A tensor; a scalar counts as an array of one.
        op: As for `all_reduce`.
        prescale: As for `all_reduce`.
        postscale: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        Part `rank` of the result, of the tensor's shape except for the first axis, which is unknown
        in a graph.

    Raises:
        InvalidArgumentError: If there is no such `op`.
        UnsupportedTypeError: If `op` or a factor is not defined for the dtype.
        tf.errors.InvalidArgumentError: If dtype, shape or `op` differ between peers.

    Example:

    ```python
    mine = kf.ops.reduce_scatter(tf.range(10.0))     # 3, 3, 2 and 2 elements on four peers
    ```
    """
    with groups.among(group):
        what = naming.title("reduce_scatter", name)
        x = tensors.to_tensor(tensor, what)
        tensors.check_reduction(x, op, what, tensor)
        tag = naming.make_tag("reduce_scatter", name)
        mine = kernels.run("kungfu_reduce_scatter", scaled(x, prescale), op=op, tag=tag)
        return scaled(mine, postscale)


@kernels.operation
def all_to_all(
    tensor: Any,
    *,
    splits: Any = None,
    return_splits: bool = False,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Sends some of its rows to each peer, and returns the rows that came from all peers.

    Differentiable: the gradients go back.

    Args:
        tensor: A tensor [rows, ...]; the number of rows may differ between peers. A scalar counts
            as an array of one.
        splits: Integers [size]: how many rows go to each rank; they must add up to all rows.
            Default: even parts, cut as `reduce_scatter` does.
        return_splits: Whether to return, too, how many rows came from each rank.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The received rows, [rows, ...], in the order of the senders' ranks. The first dimension is
        unknown in a graph. With `return_splits` a pair: the rows, and an int64 tensor [size], by
        which they can be sent back.

    Raises:
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: If dtype or the shape of rows differ between peers; if
            `splits` are not `size` numbers that add up to all rows.

    Example:

    ```python
    counts = tf.math.bincount(owner_of_row, minlength=kf.size())
    mine, from_whom = kf.ops.all_to_all(rows, splits=counts, return_splits=True)
    results = kf.ops.all_to_all(answer(mine), splits=from_whom)
    ```
    """
    with groups.among(group):
        x = tensors.to_tensor(tensor, naming.title("all_to_all", name))
        received, lengths = rows.all_to_all(x, splits, tag=naming.make_tag("all_to_all", name))
        return (received, lengths) if return_splits else received
