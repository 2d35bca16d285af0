"""The graph of all processes, and that of machines, which the program sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import networkx as nx
from bluefog.common.topology_util import GetRecvWeights, IsTopologyEquivalent


@dataclasses.dataclass
class Set:
    """A graph that is in use.

    Attributes:
        what: What messages call it.
        graph: Its nodes are ranks, or machines; None: there is none yet.
        is_weighted: Whether its weights count; else all count alike.
    """

    what: str
    graph: Any = None
    is_weighted: bool = False

    def replace(self, graph: Any, size: int, *, is_weighted: bool) -> bool:
        """Uses another graph.

        Raises:
            TypeError: If it is no `networkx.DiGraph` of so many nodes.
        """
        if not isinstance(graph, nx.DiGraph) or graph.number_of_nodes() != size:
            raise TypeError(f"{self.what} must be a networkx.DiGraph with {size} nodes")
        if IsTopologyEquivalent(graph, self.graph):
            return True  # as BlueFog, which looks at `is_weighted` no more
        self.graph, self.is_weighted = graph, is_weighted
        return True

    def sources(self, node: int) -> list[int]:
        """Those that a node takes from."""
        return [] if self.graph is None else _others(self.graph.predecessors(node), node)

    def targets(self, node: int) -> list[int]:
        """Those that take from it."""
        return [] if self.graph is None else _others(self.graph.successors(node), node)

    def weights(self, node: int) -> tuple[float, dict[int, float]]:
        """Its own weight, and those of its sources."""
        if self.is_weighted:
            return GetRecvWeights(self.graph, node)
        sources = self.sources(node)
        weight = 1 / (len(sources) + 1)
        return weight, dict.fromkeys(sources, weight)


def _others(nodes: Iterable[int], node: int) -> list[int]:
    return [other for other in nodes if other != node]


processes = Set("topology")
machines = Set("machine topology")
