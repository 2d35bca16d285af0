"""BlueFog's graphs of processes: an edge u → v with the weight by which v takes from u."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from bluefog.common._dynamic import (
    GetDynamicOnePeerSendRecvRanks,
    GetExp2DynamicSendRecvMachineRanks,
    GetInnerOuterExpo2DynamicSendRecvRanks,
    GetInnerOuterRingDynamicSendRecvRanks,
)

from kungfu_tf import topology
from kungfu_tf.topology.weights import metropolis_matrix, shifts_matrix

__all__ = [
    "ExponentialGraph",
    "ExponentialTwoGraph",
    "FullyConnectedGraph",
    "GetDynamicOnePeerSendRecvRanks",
    "GetExp2DynamicSendRecvMachineRanks",
    "GetInnerOuterExpo2DynamicSendRecvRanks",
    "GetInnerOuterRingDynamicSendRecvRanks",
    "GetRecvWeights",
    "GetSendWeights",
    "IsRegularGraph",
    "IsTopologyEquivalent",
    "MeshGrid2DGraph",
    "RingGraph",
    "StarGraph",
    "SymmetricExponentialGraph",
    "isPowerOf",
]

_BOTH, _LEFT, _RIGHT = range(3)


def IsTopologyEquivalent(topo1: Any, topo2: Any) -> bool:  # noqa: N802 (BlueFog's)
    """Whether two graphs have the same edges and weights, for the same numbers of nodes."""
    if topo1 is None or topo2 is None:
        return False
    return np.array_equal(nx.to_numpy_array(topo1), nx.to_numpy_array(topo2))


def GetRecvWeights(topo: Any, rank: int) -> tuple[float, dict[int, float]]:  # noqa: N802
    """The weight of a rank's own value, and the weights of those that it takes from."""
    return _own_and_others(nx.to_numpy_array(topo)[:, rank], rank, topo.predecessors(rank))


def GetSendWeights(topo: Any, rank: int) -> tuple[float, dict[int, float]]:  # noqa: N802
    """The weight of a rank's own value, and the weights that it has where others take it."""
    return _own_and_others(nx.to_numpy_array(topo)[rank], rank, topo.successors(rank))


def _own_and_others(weights: Any, rank: int, others: Any) -> tuple[float, dict[int, float]]:
    found = {other: float(weights[other]) for other in others}
    return found.pop(rank, 0.0), found


def IsRegularGraph(topo: Any) -> bool:  # noqa: N802
    """Whether all nodes have equally many edges."""
    return len({degree for _, degree in topo.degree()}) <= 1


def isPowerOf(x: int, base: int) -> bool:  # noqa: N802
    """Whether a positive number is a power of another, as 1 is.

    Raises:
        AssertionError: If the number is not positive, or the base is no integer above 1.
    """
    assert isinstance(base, int) and base > 1, f"the base is an integer from 2, not {base}"
    assert x > 0, f"{x} is not positive"
    while x % base == 0:
        x //= base
    return x == 1


def ExponentialTwoGraph(size: int) -> Any:  # noqa: N802
    """Each rank sends to those at the distances 1, 2, 4, 8, ... behind it."""
    return topology.exponential().to_networkx(size)


def ExponentialGraph(size: int, base: int = 2) -> Any:  # noqa: N802
    """Each rank sends to those whose distance behind it is a power of `base`."""
    return topology.exponential(base=base).to_networkx(size)


def SymmetricExponentialGraph(size: int, base: int = 4) -> Any:  # noqa: N802
    """Ranks whose distance, the shorter way round, is a power of `base` send to each other."""
    return topology.symmetric_exponential(base=base).to_networkx(size)


def MeshGrid2DGraph(size: int, shape: tuple[int, int] | None = None) -> Any:  # noqa: N802
    """Ranks in rows and columns send to those beside, above and below.

    Raises:
        AssertionError: If the shape has another number of places.
    """
    if shape is None:
        return topology.grid().to_networkx(size)
    rows, columns = shape
    assert size == rows * columns, f"{rows} rows of {columns} are not {size}"
    edges = [(rank, rank + 1) for rank in range(size) if (rank + 1) % columns]
    edges += [(rank, rank + columns) for rank in range(size - columns)]
    return _graph(metropolis_matrix(size, edges))


def StarGraph(size: int, center_rank: int = 0) -> Any:  # noqa: N802
    """One rank and all others send to each other."""
    return topology.star(center=center_rank).to_networkx(size)


def RingGraph(size: int, connect_style: int = 0) -> Any:  # noqa: N802
    """Each rank sends to the ranks before and behind it.

    Args:
        size: The number of ranks.
        connect_style: 0 for both; 1: only to the one before it; 2: only to the one behind it.

    Raises:
        AssertionError: If it is another one.
    """
    assert connect_style in (_BOTH, _LEFT, _RIGHT), f"connect_style is 0, 1 or 2: {connect_style}"
    to_left = [size - 1] if connect_style != _RIGHT else []
    to_right = [1] if connect_style != _LEFT else []
    return _graph(shifts_matrix(size, to_left + to_right))


def FullyConnectedGraph(size: int) -> Any:  # noqa: N802
    """Each rank sends to all."""
    return topology.fully_connected().to_networkx(size)


def _graph(matrix: Any) -> Any:
    """Of W, where W[v, u] is what v takes of u."""
    return nx.from_numpy_array(matrix.T, create_using=nx.DiGraph)
