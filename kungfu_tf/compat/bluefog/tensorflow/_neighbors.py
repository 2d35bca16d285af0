"""BlueFog's operations of neighbours, for tensors of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from bluefog.tensorflow._graphs import Set, machines, processes
from bluefog.tensorflow.mpi_ops import machine_rank, rank, size

import kungfu_tf as kf


def barrier() -> None:
    """Waits for all processes."""
    kf.barrier()


def neighbor_allreduce(
    tensor: Any,
    *,
    self_weight: float | None = None,
    src_weights: Mapping[int, float] | None = None,
    dst_weights: Mapping[int, float] | Sequence[int] | None = None,
    enable_topo_check: bool = True,
    name: str | None = None,
) -> Any:
    """The weighted sum of a tensor and those of the neighbours.

    Raises:
        ValueError: If only some weights are given, or they are of others than neighbours.
    """
    del enable_topo_check  # what does not fit together is an error at the deadline
    own, sources, targets = _weights(processes, rank(), self_weight, src_weights, dst_weights)
    return kf.ops.neighbor_all_reduce(
        tensor, self_weight=own, src_weights=sources, dst_weights=targets, name=name
    )


def hierarchical_neighbor_allreduce(
    tensor: Any,
    *,
    self_weight: float | None = None,
    src_machine_weights: Mapping[int, float] | None = None,
    dst_machine_weights: Mapping[int, float] | Sequence[int] | None = None,
    enable_topo_check: bool = False,
    name: str | None = None,
) -> Any:
    """The weighted sum of the mean of this host and the means of neighbour hosts.

    Raises:
        ValueError: As from `neighbor_allreduce`.
        RuntimeError: If there are neither weights nor a machine topology.
    """
    del enable_topo_check
    if self_weight is None and machines.graph is None:
        raise RuntimeError("call bf.set_machine_topology first")
    own, sources, targets = _weights(
        machines, machine_rank(), self_weight, src_machine_weights, dst_machine_weights
    )
    return kf.ops.hierarchical_neighbor_all_reduce(
        tensor, self_weight=own, src_weights=sources, dst_weights=targets, name=name
    )


def _weights(
    graph: Set, node: int, self_weight: Any, sources: Any, targets: Any
) -> tuple[float, Mapping[int, float], Any]:
    """Those of the graph, or as given.

    Raises:
        ValueError: If only some are given, or they are of others than neighbours.
    """
    if (self_weight is None) != (sources is None) or (targets is not None and sources is None):
        raise ValueError("self_weight and the weights of sources must be given together")
    if sources is None:
        return *graph.weights(node), graph.targets(node)
    if targets is not None:
        if len(set(targets)) != len(targets):
            raise ValueError("a target is there twice")
        return self_weight, sources, targets
    if not set(sources) <= set(graph.sources(node)):
        raise ValueError(f"{sorted(sources)} are not all in-neighbors: {graph.sources(node)}")
    # The others send, too.
    every = {source: sources.get(source, 0.0) for source in graph.sources(node)}
    return self_weight, every, graph.targets(node)


def neighbor_allgather(
    tensor: Any,
    *,
    src_ranks: Sequence[int] | None = None,
    dst_ranks: Sequence[int] | None = None,
    enable_topo_check: bool = True,
    name: str | None = None,
) -> Any:
    """The rows of the neighbours, without its own: in the order of `src_ranks`, or by rank.

    Raises:
        ValueError: If only one of the two is given.
    """
    del enable_topo_check
    if (src_ranks is None) != (dst_ranks is None):
        raise ValueError("src_ranks and dst_ranks must be given together")
    sources = processes.sources(rank()) if src_ranks is None else list(src_ranks)
    targets = processes.targets(rank()) if dst_ranks is None else list(dst_ranks)

    def gathered(value: Any, kind: str) -> Any:
        named = None if name is None else f"{name}{kind}"
        return kf.ops.neighbor_all_gather(
            value, sources=sources, targets=targets, concat=True, name=named
        )

    rows = gathered(tensor, "")
    lengths = gathered(tf.shape(tensor)[:1], "/lengths")
    parts = tf.split(rows, tf.ensure_shape(lengths, [len(sources)])) if sources else []
    by_rank = dict(zip(sorted(sources), parts, strict=True))
    return tf.concat([by_rank[source] for source in sources], axis=0) if sources else rows


def pair_gossip(
    tensor: Any,
    target_rank: int,
    self_weight: float | None = None,
    pair_weight: float | None = None,
    name: str | None = None,
) -> Any:
    """The weighted sum of a tensor and that of one other process; by default the mean.

    Raises:
        ValueError: If only one weight is given.
    """
    if (self_weight is None) != (pair_weight is None):
        raise ValueError("self_weight and pair_weight must be given together")
    own, other = (0.5, 0.5) if self_weight is None else (self_weight, pair_weight)
    return kf.ops.pair_gossip(tensor, target_rank, self_weight=own, pair_weight=other, name=name)


def InferSourceFromDestinationRanks(  # noqa: N802 (BlueFog's)
    dst_ranks: Sequence[int], construct_adjacency_matrix: bool = False
) -> Any:
    """The ranks that send to this one, if each process says to whom it sends. All call it."""
    return _inferred(dst_ranks, construct_adjacency_matrix, says_targets=True)


def InferDestinationFromSourceRanks(  # noqa: N802
    src_ranks: Sequence[int], construct_adjacency_matrix: bool = False
) -> Any:
    """The ranks that take from this one, if each process says from whom it takes. All call it."""
    return _inferred(src_ranks, construct_adjacency_matrix, says_targets=False)


def _inferred(ranks: Sequence[int], with_matrix: bool, *, says_targets: bool) -> Any:
    """The others of this process' edges; with a matrix, also that, each column adding up to 1."""
    assert all(0 <= other < size() for other in ranks), f"{ranks} are not all ranks"
    assert len(set(ranks)) == len(ranks), f"{ranks} contain duplicated elements"
    assert rank() not in ranks, f"{ranks} contain this process"
    mine = np.isin(np.arange(size()), ranks)
    said = kf.ops.all_gather(mine).numpy()  # [process, whether it says this rank]
    found = np.flatnonzero(said[:, rank()]).tolist()
    if not with_matrix:
        return found
    links = np.eye(size()) + (said if says_targets else said.T)
    return found, links / links.sum(axis=0)
