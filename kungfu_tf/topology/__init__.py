"""Which peers mix with which: topologies for `kf.ops.neighbor_all_reduce` and for training.

A topology is a family over numbers of peers: made once, it holds after a resize, too. It is a cycle
over steps; where that has several, the partners change from step to step.

    static      ring, star, grid, fully_connected, hypercube, exponential, symmetric_exponential,
                equi_static
    dynamic     base_graph, one_peer_exponential, one_peer, equi_dynamic, random_matching
    hosts       hierarchical: within them and between them in turns
    given       from_matrix, from_networkx, metropolis: of one number of peers

`base_graph()` is the default everywhere. It has one partner for each rank in a step, and for every
number of peers the mean is exact after few steps.

`python -m kungfu_tf.topology base_graph 6` prints what a topology is like. This module needs NumPy
only; `networkx` is needed for its own graphs.
"""

from __future__ import annotations

from kungfu_tf.topology.base_graphs import base_graph
from kungfu_tf.topology.checks import check
from kungfu_tf.topology.dynamic import (
    equi_dynamic,
    one_peer,
    one_peer_exponential,
    random_matching,
)
from kungfu_tf.topology.given import from_matrix, from_networkx, metropolis
from kungfu_tf.topology.hierarchical import hierarchical
from kungfu_tf.topology.static import (
    equi_static,
    exponential,
    fully_connected,
    grid,
    hypercube,
    ring,
    star,
    symmetric_exponential,
)
from kungfu_tf.topology.topology import Neighbors, Topology

__all__ = [
    "Neighbors",
    "Topology",
    "base_graph",
    "check",
    "equi_dynamic",
    "equi_static",
    "exponential",
    "from_matrix",
    "from_networkx",
    "fully_connected",
    "grid",
    "hierarchical",
    "hypercube",
    "metropolis",
    "one_peer",
    "one_peer_exponential",
    "random_matching",
    "ring",
    "star",
    "symmetric_exponential",
]
