"""Operations that all peers do together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu.python._taking_in import comes_in

from kungfu_tf import ops


@comes_in
def all_reduce(t: Any, op: str = "sum") -> Any:
    """Reduces a tensor over all peers: "sum", "min", "max", "prod", or "mean"."""
    return ops.all_reduce(t, op=op)


@comes_in
def group_all_reduce(ts: Sequence[Any], op: str = "sum") -> list[Any]:
    """Reduces many tensors; None stays."""
    return ops.group_all_reduce(ts, op=op)


@comes_in
def group_nccl_all_reduce(ts: Sequence[Any]) -> list[Any]:
    """As `group_all_reduce`, without NCCL: tensors of GPUs travel through the host's memory."""
    return ops.group_all_reduce(ts)


@comes_in
def group_hierarchical_nccl_all_reduce(ts: Sequence[Any]) -> list[Any]:
    """The same: kungfu_tf itself chooses the traffic between hosts."""
    return ops.group_all_reduce(ts)


@comes_in
def monitored_all_reduce(t: Any, tree: Any = None, op: str = "sum") -> Any:
    """As `all_reduce`, and counts for `calc_stats`."""
    return ops.monitored_all_reduce(t, tree=tree, op=op)


@comes_in
def subset_all_reduce(t: Any, topology: Any, op: str = "sum") -> Any:
    """Reduces within each tree; `topology` holds the parent of each rank."""
    return ops.subset_all_reduce(t, topology, op=op)


@comes_in
def all_gather(t: Any) -> Any:
    """Stacks the tensors of all peers."""
    return ops.all_gather(t)


@comes_in
def broadcast(t: Any) -> Any:
    """Gives all peers the tensor of rank 0."""
    return ops.broadcast(t)


@comes_in
def consensus(t: Any) -> Any:
    """Tells whether all peers have the same."""
    return ops.consensus(t)


@comes_in
def barrier() -> Any:
    """Is done when all peers have come."""
    return ops.barrier()


def fuse(ts: Sequence[Any]) -> Any:
    """Joins tensors to a vector."""
    return ops.fuse(ts)


def defuse(y: Any, shapes: Sequence[Any]) -> list[Any]:
    """Cuts a vector into tensors."""
    return ops.defuse(y, shapes)
