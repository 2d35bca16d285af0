"""Topologies of one number of peers: of given matrices, graphs or edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kungfu_tf import errors
from kungfu_tf.topology.topology import Matrix, Topology, cycle
from kungfu_tf.topology.weights import metropolis_matrix, with_own_weights


def from_matrix(matrices: Any) -> Topology:
    """The topology of a matrix, or of the matrices of a cycle.

    Args:
        matrices: An array [size, size], or several: `W[i, j]` is how much rank i takes of rank j.

    Raises:
        InvalidArgumentError: If they are not square, or not of one size. `check` tells whether the
            weights make a mean.

    Example:

    ```python
    kf.topology.from_matrix([[0.5, 0.5], [0.5, 0.5]])
    ```
    """
    given = np.array(matrices, np.float64)
    if given.ndim not in (2, 3) or given.shape[-1] != given.shape[-2] or 0 in given.shape:
        raise errors.InvalidArgumentError(
            f"from_matrix: an array of shape {list(given.shape)}, not [size, size] or "
            "[steps, size, size]"
        )
    return _of_one_size("from_matrix", list(given.reshape(-1, *given.shape[-2:])))


def from_networkx(graph: Any) -> Topology:
    """The topology of a graph of networkx, in BlueFog's directions.

    An edge u → v tells that v takes from u. Its `weight` is how much; the weight of u → u is the
    own one. If there is no such edge, the own weight is what is left of 1. Without any weights, an
    undirected graph gets those of `metropolis`, and in a directed one each rank takes equally much
    of its sources and itself.

    Args:
        graph: A `networkx.Graph` or `DiGraph` with the nodes 0 to size − 1.

    Raises:
        InvalidArgumentError: If its nodes are others.
    """
    size = graph.number_of_nodes()
    if size == 0 or set(graph.nodes) != set(range(size)):
        raise errors.InvalidArgumentError(
            f"from_networkx: the nodes of {size} peers are 0 to {size - 1}, not "
            f"{sorted(graph.nodes, key=str)[:8]}"
        )
    edges = [(u, v, weight) for u, v, weight in graph.edges(data="weight")]
    if all(weight is None for *_, weight in edges):
        if not graph.is_directed():
            return _of_one_size("from_networkx", [metropolis_matrix(size, graph.edges)])
        counts = [1 + len(set(graph.predecessors(v)) - {v}) for v in range(size)]
        edges = [(u, v, 1 / counts[v]) for u, v in graph.edges if u != v]
    matrix = np.zeros((size, size))
    for u, v, weight in edges:
        matrix[v, u] = 1 if weight is None else weight
        if not graph.is_directed():
            matrix[u, v] = matrix[v, u]
    has_own_weights = any(u == v for u, v, _ in edges)
    return _of_one_size("from_networkx", [matrix if has_own_weights else with_own_weights(matrix)])


def metropolis(edges: Iterable[tuple[int, int]]) -> Topology:
    """The topology of an undirected graph, with weights that are doubly stochastic.

    Two ranks of an edge take 1/(1 + their larger degree) of each other.

    Args:
        edges: Pairs of ranks. The size is one more than the highest rank.

    Raises:
        InvalidArgumentError: If there is no edge, or a negative rank.

    Example:

    ```python
    kf.topology.metropolis([(0, 1), (1, 2), (1, 3)])
    ```
    """
    pairs = [(int(a), int(b)) for a, b in edges]
    ranks = [rank for pair in pairs for rank in pair]
    if not ranks or min(ranks) < 0:
        raise errors.InvalidArgumentError(f"metropolis: {pairs} are no edges between ranks")
    return _of_one_size("metropolis", [metropolis_matrix(max(ranks) + 1, pairs)])


def _of_one_size(family: str, matrices: Sequence[Matrix]) -> Topology:
    own = len(matrices[0])
    text = f"{family}({len(matrices)} of {own} × {own})"

    def of_size(size: int) -> Sequence[Matrix]:
        if size != own:
            raise errors.InvalidArgumentError(f"{text} is for {own} peers, and there are {size}")
        return matrices

    return cycle(text, of_size, key=(family, np.stack(matrices).tobytes()))
