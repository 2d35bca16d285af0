"""Horovod's operations on tensors, with the errors and the gradients that they have there.

Peers that differ get a FailedPreconditionError. The gradients of gathers and broadcasts are means
over the peers, not sums, and that of a sum that is scattered is `size` times as much: so they are
those of the mean of all peers' losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    process_sets_of_ids,
    remove_process_set,
    root_in_set,
    within_its_set,
)
from horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2
from horovod.tensorflow._peer import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_rank_op,
    local_size,
    local_size_op,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    process_set_included_op,
    rank,
    rank_op,
    rocm_built,
    shutdown,
    size,
    size_op,
    start_timeline,
    stop_timeline,
)
from horovod.tensorflow._scaling import divided_by_size
from horovod.tensorflow.util import _executing_eagerly

from kungfu_tf import groups, ops, peer
from kungfu_tf.exchange.number_of_peers import number_of_peers
from kungfu_tf.ops import group, kernels, naming, rows, tensors
from kungfu_tf.ops.scaling import scaled

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "_executing_eagerly",
    "add_process_set",
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_",
    "ccl_built",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reduced",
    "reduced_group",
    "reduced_rows",
    "remove_process_set",
    "rocm_built",
    "scattered",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]


class _Basics:
    """What Horovod's tests of process sets look at."""

    _get_process_set_ids_and_ranks = staticmethod(process_sets_of_ids)


_basics = _Basics()

Average, Sum, Adasum, Min, Max, Product = range(6)

_NAMES = {Average: "mean", Sum: "sum", Min: "min", Max: "max", Product: "prod"}
_DIFFERING = {"differing": tf.errors.FAILED_PRECONDITION}


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The reduction that `op`, or the older `average`, asks for.

    Raises:
        ValueError: If both are given.
    """
    if op is not None and average is not None:
        raise ValueError("op replaces average: give only one of them")
    if op is not None:
        return op
    return Sum if average is not None and not average else Average


def name_of(op: int) -> str:
    """What kungfu_tf calls a reduction.

    Raises:
        NotImplementedError: If it has none of this kind.
    """
    if op not in _NAMES:
        what = "Adasum of rows" if op == Adasum else f"the reduction {op!r}"
        raise NotImplementedError(f"{what} is missing in kungfu_tf.compat")
    return _NAMES[op]


def reduced(
    tensor: Any, op: int, *, prescale: float = 1.0, postscale: float = 1.0, name: str | None = None
) -> Any:
    """The reduction of a dense tensor over all peers."""
    what = naming.title("allreduce", name)
    x = scaled(tensors.to_tensor(tensor, what), prescale)
    if op == Adasum:
        return scaled(ops.adasum(x, name=name), postscale)
    kind = _kind(x, op, postscale)
    tensors.check_reduction(x, kind, what)
    tag = naming.make_tag("all_reduce", name)
    result = kernels.run("kungfu_all_reduce", x, op=kind, tag=tag, **_DIFFERING)
    return _finished(result, op, postscale)


def reduced_group(
    values: Sequence[Any],
    op: int,
    *,
    prescale: float = 1.0,
    postscale: float = 1.0,
    name: str | None = None,
) -> list[Any]:
    """The reductions of dense tensors over all peers."""
    what = naming.title("grouped_allreduce", name)
    given = [scaled(tensors.to_tensor(value, what), prescale) for value in values]
    if op == Adasum:
        return [scaled(x, postscale) for x in ops.group_adasum(given, name=name)]
    kinds = [_kind(x, op, postscale) for x in given]
    results: list[Any] = [None] * len(given)
    for kind in sorted(set(kinds)):
        places = [i for i, each in enumerate(kinds) if each == kind]
        some = group.agreed_all_reduce(
            [given[i] for i in places],
            op=kind,
            name=None if name is None else f"{name}/{kind}",
            attributes=_DIFFERING,
        )
        for i, result in zip(places, some, strict=True):
            results[i] = _finished(result, op, postscale)
    return results


def reduced_rows(tensor: Any, op: int, *, scales: bool = False) -> tf.IndexedSlices:
    """The sum or mean of sparse rows over all peers: those of all of them.

    Raises:
        NotImplementedError: If it is another reduction, or factors are given.
    """
    if op not in (Sum, Average):
        raise NotImplementedError("tf.IndexedSlices: only Sum and Average are there")
    if scales:
        raise NotImplementedError("tf.IndexedSlices: there are no prescale and postscale factors")
    values, indices = allgather(tensor.values), allgather(tensor.indices)
    if op == Average:
        peers = number_of_peers([values, indices], name=None)
        values /= tf.cast(peers, values.dtype)
    return tf.IndexedSlices(values, indices, tensor.dense_shape)


def scattered(
    tensor: Any, op: int, *, prescale: float = 1.0, postscale: float = 1.0, name: str | None = None
) -> Any:
    """This peer's rows of the reduction of a tensor.

    Raises:
        tf.errors.InvalidArgumentError: If it is a scalar.
    """
    what = naming.title("reducescatter", name)
    given = tensors.to_tensor(tensor, what)
    if given.shape.rank == 0:
        raise tf.errors.InvalidArgumentError(None, None, f"{what}: a scalar has no rows")
    kind = _kind(given, op, postscale)
    tag = naming.make_tag("reduce_scatter", name)

    @tf.custom_gradient
    def run(x: Any) -> Any:
        sent = scaled(x, prescale)
        tensors.check_reduction(sent, kind, what)
        mine = kernels.run("kungfu_reduce_scatter", sent, op=kind, tag=tag, **_DIFFERING)

        @groups.bound
        def gradient(of_mine: Any) -> Any:
            factor = prescale * postscale
            if op == Sum:
                of_mine *= tf.cast(ops.cluster_size(), of_mine.dtype)
            return allgather(scaled(of_mine, factor))

        return _finished(mine, op, postscale), gradient

    return run(given)


@within_its_set
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """The rows of all peers, whose number may differ."""
    del ignore_name_scope, process_set
    given = tensors.to_tensor(tensor, naming.title("allgather", name))
    tag = naming.make_tag("all_gather", name)

    @tf.custom_gradient
    def run(x: Any) -> Any:
        everything, lengths = rows.all_gather(x, concat=True, tag=tag, **_DIFFERING)

        @groups.bound
        def gradient(of_everything: Any) -> Any:
            mean = reduced(of_everything, Average)
            here = ops.rank()
            begin = tf.reduce_sum(lengths[:here])
            return tf.reshape(mean[begin : begin + lengths[here]], tf.shape(x))

        return everything, gradient

    return run(given)


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> list[Any]:
    """`allgather` of each of many tensors."""
    names = [None if name is None else f"{name}/{i}" for i in range(len(tensors))]
    return [
        allgather(tensor, each, ignore_name_scope, process_set)
        for tensor, each in zip(tensors, names, strict=True)
    ]


@within_its_set
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """The tensor of one peer."""
    del ignore_name_scope, process_set
    given = tensors.to_tensor(tensor, naming.title("broadcast", name))
    root = root_in_set(root_rank)
    tag = naming.make_tag("broadcast", name)

    @tf.custom_gradient
    def run(x: Any) -> Any:
        @groups.bound
        def gradient(of_result: Any) -> Any:
            mean = reduced(of_result, Average)
            return mean * tf.cast(tf.equal(ops.rank(), root), mean.dtype)

        return kernels.run("kungfu_broadcast", x, root=root, tag=tag, **_DIFFERING), gradient

    return run(given)


@within_its_set
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> list[Any]:
    """Gives variables the values of one peer, and returns them."""
    del process_set
    values = ops.group_broadcast(
        [tf.convert_to_tensor(v) for v in variables], root=root_in_set(root_rank), name=name
    )
    assigned = [v.assign(value) for v, value in zip(variables, values, strict=True)]
    with tf.control_dependencies([] if _executing_eagerly() else assigned):
        return [v.read_value() for v in variables]


@within_its_set
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """The rows that all peers have sent to this one; with `splits` also how many each has sent.

    Raises:
        tf.errors.InvalidArgumentError: If the rows cannot be divided among the peers.
    """
    del ignore_name_scope, process_set
    x = tensors.to_tensor(tensor, naming.title("alltoall", name))
    tag = naming.make_tag("all_to_all", name)
    if splits is None:
        with tf.control_dependencies(_check_divisible(x)):
            x = tf.identity(x)
    received, lengths = rows.all_to_all(x, splits, tag=tag, **_DIFFERING)
    return received if splits is None else (received, tf.cast(lengths, tf.int32))


def _check_divisible(x: Any) -> list[Any]:
    remainder = tf.shape(x)[0] % peer.size()
    message = f"alltoall: the number of peers, {peer.size()}, must divide the rows, or give splits"
    static = tf.get_static_value(remainder)
    if static:
        raise tf.errors.InvalidArgumentError(None, None, message)
    check_later: Callable[..., Any] = tf.debugging.assert_equal
    return [] if static is not None else [check_later(remainder, 0, message)]


def _kind(x: Any, op: int, postscale: float) -> str:
    """The reduction to run: a sum where a mean of integers is yet to be multiplied."""
    return "sum" if _is_cut_later(x, op, postscale) else name_of(op)


def _finished(result: Any, op: int, postscale: float) -> Any:
    if _is_cut_later(result, op, postscale):
        return divided_by_size(result, postscale)
    return scaled(result, postscale)


def _is_cut_later(x: Any, op: int, postscale: float) -> bool:
    """Whether a mean is cut off after its multiplication, and only there."""
    return op == Average and x.dtype.is_integer and postscale != 1.0
