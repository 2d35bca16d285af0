"""Adasum: a sum that becomes a mean where its tensors point the same way.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, groups, peer
from kungfu_tf.groups import Group
from kungfu_tf.ops import kernels, naming, rows, topology

_NOBODY = -1


@kernels.operation
def adasum(x: Any, *, name: str | None = None, group: Group | None = None) -> Any:
    """Combines a tensor of all peers so that nothing is counted twice.

    Two tensors a and b become

        (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b.

    That is their sum where they are orthogonal, and their mean where they are equal. Peers are
    combined in pairs, then pairs of pairs, and so on, after log₂(size) steps. Where the size is no
    power of two the last ranks are first combined with the first ones. Source: Maleki et al.,
    "Scaling Distributed Training with Adaptive Summation" (2021).

    Args:
        x: A floating tensor, of the same shape on all peers.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The result, the same on all peers. Products are computed in float32, those of float64 in
        float64.

    Raises:
        UnsupportedTypeError: If `x` is not floating.
        FailedPreconditionError: If the job survives lost peers.
        tf.errors.InvalidArgumentError: If dtypes or shapes differ between peers.

    Example:

    ```python
    delta = kf.ops.adasum(delta)
    ```
    """
    return group_adasum([x], name=name, group=group)[0]


@kernels.operation
def group_adasum(
    values: Sequence[Any], *, name: str | None = None, group: Group | None = None
) -> list[Any]:
    """`adasum` of each of many tensors, at the price of one.

    Args:
        values: Floating tensors.
        name: As for `adasum`.
        group: As for `adasum`.

    Returns:
        The results, in the order of the inputs and of their shapes.

    Raises:
        UnsupportedTypeError: If one of them is not floating.
        FailedPreconditionError: If the job survives lost peers.
        tf.errors.InvalidArgumentError: If dtypes or shapes differ between peers.

    Example:

    ```python
    deltas = kf.ops.group_adasum(deltas)
    ```
    """
    tensors = [tf.convert_to_tensor(value) for value in values]
    for tensor in tensors:
        if not tensor.dtype.is_floating:
            what = naming.title("adasum", name)
            raise errors.UnsupportedTypeError(
                f"{what}: it is for floating tensors, not {tensor.dtype.name}"
            )
    if not tensors:
        return []
    _check_peers_stay(naming.title("adasum", name))
    with groups.among(group):
        return _of_tensors(tensors, naming.make_tag("adasum", name))


def _check_peers_stay(what: str) -> None:
    if peer.launched() and peer.survives():
        raise errors.FailedPreconditionError(
            f"{what}: with -on-failure survive there is no Adasum: survivors could not repeat what "
            "pairs of peers have done"
        )


def _of_tensors(tensors: Sequence[Any], tag: str) -> list[Any]:
    """All of them travel as one vector."""
    dtype = tf.float64 if tf.float64 in [tensor.dtype for tensor in tensors] else tf.float32
    vector = tf.concat([tf.reshape(tf.cast(tensor, dtype), [-1]) for tensor in tensors], axis=0)
    sizes = [tf.size(tensor) for tensor in tensors]
    is_tf1 = not tf.compat.v1.executing_eagerly_outside_functions()
    run = tf.function(_of_vector, autograph=False) if is_tf1 else _of_vector  # for the loop's order
    check = _checked(tensors, f"{tag}/shapes")
    # On every processor sums of the same numbers have the same bits; on a GPU they need not.
    with tf.control_dependencies([check]), tf.device("CPU:0"):
        result = run(vector, tf.repeat(tf.range(len(tensors)), sizes), tag)
    return [
        tf.cast(tf.reshape(part, tf.shape(tensor)), tensor.dtype)
        for part, tensor in zip(tf.split(result, sizes), tensors, strict=True)
    ]


def _checked(tensors: Sequence[Any], tag: str) -> Any:
    """Fails on all peers if their dtypes or shapes differ."""
    kinds = [tf.constant([tensor.dtype.as_datatype_enum], tf.int64) for tensor in tensors]
    shapes = [tf.shape(tensor, tf.int64) for tensor in tensors]
    ranks = [tf.shape(shape, tf.int64) for shape in shapes]
    agree = tf.concat([*kinds, *ranks, *shapes], axis=0)
    return rows.all_gather(tf.zeros([0]), concat=True, tag=tag, agree=agree)[0]


def _of_vector(vector: Any, parts: Any, tag: str) -> Any:
    """Adasum of a vector of each peer.

    Args:
        vector: Of this peer.
        parts: To which tensor each element belongs, ascending.
        tag: The name by which peers match it.
    """
    size, rank = topology.cluster_size(), topology.rank()
    powers = tf.bitwise.left_shift(1, tf.range(1, 31))
    levels = tf.reduce_sum(tf.cast(powers <= size, tf.int32))
    among = tf.bitwise.left_shift(1, levels)  # the ranks that meet in pairs; the others help

    def with_others(mine: Any) -> Any:
        target = tf.where(rank >= among, rank - among, _NOBODY)
        return _combined(mine, _sent(mine, target, size, f"{tag}/in"), parts)

    def from_partners(mine: Any) -> Any:
        target = tf.where(rank < size - among, rank + among, _NOBODY)
        received = _sent(mine, target, size, f"{tag}/out")
        return tf.cond(tf.size(received) > 0, lambda: received, lambda: mine)

    def with_partner(level: Any, mine: Any) -> tuple[Any, Any]:
        partner = tf.bitwise.bitwise_xor(rank, tf.bitwise.left_shift(1, level))
        target = tf.where(rank < among, partner, _NOBODY)
        return level + 1, _combined(mine, _sent(mine, target, size, f"{tag}/level"), parts)

    has_others = size > among
    vector = tf.cond(has_others, lambda: with_others(vector), lambda: vector)
    _, vector = tf.while_loop(
        lambda level, _: level < levels,
        with_partner,
        [tf.constant(0), vector],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
        parallel_iterations=1,
    )
    return tf.cond(has_others, lambda: from_partners(vector), lambda: vector)


def _sent(mine: Any, target: Any, size: Any, tag: str) -> Any:
    """Sends a vector to a rank, or to nobody. Returns what another one has sent, or nothing."""
    splits = tf.one_hot(target, size, tf.size(mine, tf.int64), tf.constant(0, tf.int64))
    return rows.all_to_all(mine[: tf.reduce_sum(splits)], splits, tag=tag)[0]


def _combined(mine: Any, theirs: Any, parts: Any) -> Any:
    """Both peers get the same bits, as sums and products do not depend on the order of two."""

    def dot(a: Any, b: Any) -> Any:
        return tf.math.segment_sum(a * b, parts)

    def both() -> Any:
        product = dot(mine, theirs)
        factors = [1 - tf.math.divide_no_nan(product, 2 * dot(v, v)) for v in (mine, theirs)]
        of_mine, of_theirs = (tf.gather(factor, parts) for factor in factors)
        return of_mine * mine + of_theirs * theirs

    return tf.cond(tf.size(theirs) > 0, both, lambda: mine)
