"""The gradients of the collectives: their transposes.

The operation of a gradient is named after the one it belongs to, `<tag>/grad`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import errors, groups
from kungfu_tf.ops import collective, group, naming, neighbor, rows, strategy, topology
from kungfu_tf.ops.neighborhood import Neighborhood

Function = TypeVar("Function", bound=Callable[..., Any])


def _gradient(op_type: str) -> Callable[[Function], Function]:
    """Registers the gradient of an operation, which its group computes."""

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def of_group(op: Any, *gradients: Any) -> Any:
            with groups.among_number(op.get_attr("group")):
                results = function(op, *gradients)
            if not op.get_attr("eager_names"):
                return results
            return [*(results if isinstance(results, list) else [results]), None]

        tf.RegisterGradient(op_type)(of_group)
        return function

    return register


def _text(op: Any, attribute: str) -> str:
    return tf.compat.as_str(op.get_attr(attribute))


def _own_tag(op: Any) -> str:
    if not op.get_attr("eager_names"):
        return _text(op, "tag")
    return tf.compat.as_str(tf.get_static_value(op.inputs[-1]))


def _inputs(op: Any) -> list[Any]:
    """The inputs of `op` without its name."""
    return list(op.inputs)[: len(op.inputs) - op.get_attr("eager_names")]


def _name(op: Any) -> str:
    return f"{_own_tag(op)}/grad"


def _tag(op: Any) -> str:
    return naming.make_tag("gradient", _name(op))


def _linear(op: Any) -> str:
    """The reduction of `op`, if it is linear."""
    reduction = _text(op, "op")
    if reduction not in ("sum", "mean"):
        raise errors.UnimplementedError(
            f"'{_own_tag(op)}': {reduction} over peers has no gradient; sum and mean have"
        )
    return reduction


@_gradient("KungfuAllReduce")
def _all_reduce(op: Any, gradient: Any) -> Any:
    return collective.all_reduce(gradient, op=_linear(op), name=_name(op))


@_gradient("KungfuGroupAllReduce")
def _group_all_reduce(op: Any, *gradients: Any) -> list[Any]:
    return [*group.group_all_reduce(gradients, op=_linear(op), name=_name(op)), None]


@_gradient("KungfuGroupAllReduceNorms")
def _group_all_reduce_norms(op: Any, *gradients: Any) -> list[Any]:
    # Norms are measurements, and count as constants.
    means = gradients[:-2]
    return [*group.group_all_reduce(means, op=_linear(op), name=_name(op)), None, None]


@_gradient("KungfuSubsetAllReduce")
def _subset_all_reduce(op: Any, gradient: Any) -> list[Any]:
    parents = op.inputs[1]
    return [
        strategy.subset_all_reduce(gradient, parents, op=_linear(op), name=_name(op)),
        None,
    ]


@_gradient("KungfuBroadcast")
def _broadcast(op: Any, gradient: Any) -> Any:
    dense = tf.convert_to_tensor(gradient)
    return collective.reduce(dense, "sum", root=op.get_attr("root"), name=_name(op))


@_gradient("KungfuGroupBroadcast")
def _group_broadcast(op: Any, *gradients: Any) -> list[Any]:
    root = op.get_attr("root")
    return [
        collective.reduce(tf.convert_to_tensor(gradient), "sum", root=root, name=f"{_name(op)}/{i}")
        for i, gradient in enumerate(gradients)
    ]


@_gradient("KungfuReduce")
def _reduce(op: Any, gradient: Any) -> Any:
    reduction = _linear(op)
    dense = tf.convert_to_tensor(gradient)
    result = collective.broadcast(dense, root=op.get_attr("root"), name=_name(op))
    if reduction == "mean":
        result /= tf.cast(topology.cluster_size(), result.dtype)
    return result


@_gradient("KungfuAllGather")
def _all_gather(op: Any, gradient: Any, _: Any) -> list[Any]:
    # Gradients go back to the peer whose rows they are of, which adds them up.
    lengths = op.outputs[1]
    parts, _ = rows.all_to_all(tf.convert_to_tensor(gradient), lengths, tag=_tag(op))
    shape = tf.concat([[tf.size(lengths)], tf.shape(op.inputs[0])], axis=0)
    return [tf.reduce_sum(tf.reshape(parts, shape), axis=0), None]


@_gradient("KungfuGather")
def _gather(op: Any, gradient: Any, _: Any) -> list[Any]:
    mine, _ = rows.all_to_all(tf.convert_to_tensor(gradient), op.outputs[1], tag=_tag(op))
    return [tf.reshape(mine, tf.shape(op.inputs[0])), None]


@_gradient("KungfuReduceScatter")
def _reduce_scatter(op: Any, gradient: Any) -> Any:
    reduction = _linear(op)
    dense = tf.convert_to_tensor(gradient)
    gathered, lengths = rows.all_gather(dense, concat=True, tag=_tag(op))
    if reduction == "mean":
        gathered /= tf.cast(tf.size(lengths), gathered.dtype)
    return tf.reshape(gathered, tf.shape(op.inputs[0]))


@_gradient("KungfuAllToAll")
def _all_to_all(op: Any, gradient: Any, _: Any) -> list[Any]:
    back, _ = rows.all_to_all(tf.convert_to_tensor(gradient), op.outputs[1], tag=_tag(op))
    return [tf.reshape(back, tf.shape(op.inputs[0])), None]


@_gradient("KungfuGroupNeighborAllReduce")
def _group_neighbor_all_reduce(op: Any, *gradients: Any) -> list[Any]:
    numbers = _inputs(op)[len(gradients) :]
    near = Neighborhood(*numbers, topology=_text(op, "topology"))
    back = neighbor.weighted_sums(gradients, near.transposed(), what=_name(op), tag=_tag(op))
    return [*back, *(None for _ in numbers)]


@_gradient("KungfuNeighborAllGather")
def _neighbor_all_gather(op: Any, gradient: Any, _: Any) -> list[Any]:
    x, _, sources, targets = _inputs(op)
    by_rank = tf.sort(sources)[:, None]  # as the lengths are, whatever the caller's order
    lengths = tf.scatter_nd(by_rank, op.outputs[1], [topology.cluster_size()])
    parts, _ = rows.all_to_all(tf.convert_to_tensor(gradient), lengths, tag=_tag(op))
    shape = tf.concat([[tf.size(targets)], tf.shape(x)], axis=0)
    return [tf.reduce_sum(tf.reshape(parts, shape), axis=0), None, None, None]


tf.no_gradient("KungfuConsensus")
