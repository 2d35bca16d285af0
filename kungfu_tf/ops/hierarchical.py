"""Averages of whole hosts with their neighbours.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.ops import kernels, naming, neighbor, strategy
from kungfu_tf.ops.neighborhood import Neighborhood, check_given, fields_of
from kungfu_tf.topology import Topology, base_graph


@kernels.operation
def hierarchical_neighbor_all_reduce(
    tensor: Any,
    *,
    topology: Topology | None = None,
    step: Any = 0,
    self_weight: float | None = None,
    src_weights: Mapping[int, float] | None = None,
    dst_weights: Mapping[int, float] | Sequence[int] | None = None,
    name: str | None = None,
) -> Any:
    """Returns the weighted sum of the mean of this peer's host and the means of neighbour hosts.

    ```
    mₕ = mean of xᵢ over the peers i of host h
    yᵢ = Σₖ W[h, k]·mₖ                # for all peers i of host h: the same bits
    ```

    Hosts are numbered from 0 by their first ranks. One peer of each host exchanges data with other
    hosts, and so sends as much as one peer does in `neighbor_all_reduce`. The hosts may have
    different numbers of peers. Differentiable.

    Args:
        tensor: A floating or complex tensor, of the same dtype and shape on all peers.
        topology: Which hosts mix; default `kf.topology.base_graph()`. The same on all peers.
        step: An integer: which matrix of the topology's cycle it is. The same on all peers.
        self_weight: Instead of a topology: the weight of this host's mean.
        src_weights: A dict {host: weight}: the hosts from which this one takes.
        dst_weights: The hosts that take from this one, a list or a dict with factors of what it
            sends. Default: the hosts of `src_weights`, with factor 1.
        name: The same on every peer; default by the place in the program.

    Returns:
        A tensor of the same shape.

    Raises:
        InvalidArgumentError: If there are both a topology and weights, or some of the weights only;
            or, in eager code, if the topology is for another number of hosts.
        UnsupportedTypeError: If the tensor is not floating or complex.
        tf.errors.OpError: As from `neighbor_all_reduce`.

    Example:

    ```python
    y = kf.ops.hierarchical_neighbor_all_reduce(x, topology=kf.topology.ring())
    ```
    """
    what = naming.title("hierarchical_neighbor_all_reduce", name)
    tag = naming.make_tag("hierarchical_neighbor_all_reduce", name)
    is_given = check_given(what, topology, self_weight, src_weights, dst_weights)
    fixed = _given(what, self_weight, src_weights, dst_weights) if is_given else None
    graph = base_graph() if topology is None else topology
    parents, across, within, is_first = _looked_up(graph, fixed, step)
    mean = strategy.subset_all_reduce(tensor, parents, op="mean", name=f"{tag}/mean")
    [mixed] = neighbor.weighted_sums([mean], across, what=what, tag=f"{tag}/across")
    # The others add the result of the first one to -0, which keeps its bits.
    start = tf.where(is_first, mixed, -tf.zeros_like(mixed))
    return neighbor.weighted_sums([start], within, what=what, tag=f"{tag}/within")[0]


def _given(what: str, self_weight: Any, sources: Any, targets: Any) -> tuple[Any, ...]:
    """Given weights, as `fields_of` returns those of a topology.

    Raises:
        InvalidArgumentError: If there is no such host.
    """
    sent_to = list(sources) if targets is None else targets
    factors = sent_to if isinstance(sent_to, Mapping) else dict.fromkeys(sent_to, 1.0)
    count = peer.host_count()
    for host in (*sources, *factors):
        if not 0 <= host < count:
            raise errors.InvalidArgumentError(f"{what}: host {host} is none of {count} hosts")
    return (
        np.float64(self_weight),
        np.array(list(sources), np.int32),
        np.array(list(sources.values()), np.float64),
        np.array(list(factors), np.int32),
        np.array(list(factors.values()), np.float64),
        np.int64(0),
    )


def _looked_up(
    topology: Topology, fixed: tuple[Any, ...] | None, step: Any
) -> tuple[Any, Neighborhood, Neighborhood, Any]:
    """The parents of a tree for each host, and the neighbours across hosts and within this one.

    Also whether this peer is the first one of its host, which has the others as targets within it.
    They are looked up when the operation runs: they are right after a resize, too.
    """

    def look_up(number: Any) -> tuple[Any, ...]:
        hosts = _hosts(peer.membership_version(), peer.size())
        rank = peer.rank()
        here = next(place for place, ranks in enumerate(hosts) if rank in ranks)
        firsts = np.array([ranks[0] for ranks in hosts], np.int32)
        parents = np.zeros(peer.size(), np.int32)
        for ranks in hosts:
            parents[list(ranks)] = ranks[0]
        own, sources, weights, targets, factors, agree = fixed or fields_of(
            topology, int(number) % topology.length(len(hosts)), here, len(hosts)
        )
        none = np.zeros(0, np.int32)
        is_first = rank == firsts[here]
        if not is_first:  # it gets the result from the first one
            own, sources, weights = np.float64(1), none, np.zeros(0)
            targets, factors = none, np.zeros(0)
        followers = np.array(hosts[here][1:], np.int32)
        from_first = none if is_first else firsts[here : here + 1]
        return (
            parents,
            *(own, firsts[sources], weights, firsts[targets], factors, agree),
            *(np.float64(1), from_first, np.ones(len(from_first))),
            *(followers if is_first else none, np.ones(len(followers) if is_first else 0)),
            np.bool_(is_first),
        )

    weight, number = tf.TensorSpec([], tf.float64), tf.TensorSpec([], tf.int64)
    ranks, weights = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float64)
    side = [weight, ranks, weights, ranks, weights]
    specs = [ranks, *side, number, *side, tf.TensorSpec([], tf.bool)]
    found = tf.numpy_function(look_up, [tf.cast(step, tf.int64)], [spec.dtype for spec in specs])
    for value, spec in zip(found, specs, strict=True):
        value.set_shape(spec.shape)
    label = repr(topology) if fixed is None else ""
    across = Neighborhood(*found[1:7], topology=label)
    within = Neighborhood(*[*found[7:12], tf.zeros([], tf.int64)])
    return found[0], across, within, found[12]


@functools.lru_cache(maxsize=8)
def _hosts(version: int, size: int) -> list[tuple[int, ...]]:
    """The ranks of each host, in the order of their first ones."""
    del version  # of the list of peers, which the cache goes by
    found: dict[str, list[int]] = {}
    for rank in range(size):
        found.setdefault(peer.name_of(rank).rpartition(":")[0], []).append(rank)
    return [tuple(ranks) for ranks in found.values()]
