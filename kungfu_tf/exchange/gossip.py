"""Meetings of neighbours: a peer waits for those of its neighbours only, and not for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu_tf import ops, peer
from kungfu_tf.exchange.widening import widened
from kungfu_tf.topology import Topology, check


class Gossip:
    """At a meeting a peer has Σⱼ W[i, j]·vⱼ of models in place of their mean.

    Args:
        graph: The topology that W is of. Its steps are the meetings.
    """

    def __init__(self, graph: Topology) -> None:
        self.topology = graph

    def mixed(self, variables: Sequence[Any], meeting: Any, name: str) -> list[Any]:
        """The weighted sums of the variables, of halves in float32.

        Args:
            variables: Those of a meeting, the same ones on all peers.
            meeting: Its number, from 0, an integer scalar.
            name: The name of the operation.

        Raises:
            InvalidArgumentError: If the topology makes no means.
        """
        values = [widened(v) for v in variables]
        if peer.is_single_process() or not values:
            return values
        check(self.topology, peer.size())
        return ops.group_neighbor_all_reduce(
            values, topology=self.topology, step=meeting, name=name
        )


def check_gossip(gossip: Any) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is neither a topology nor None.
    """
    if gossip is not None and not isinstance(gossip, Topology):
        raise TypeError(
            "gossip is a topology such as kungfu_tf.topology.random_matching(seed=0), not "
            f"{gossip!r}"
        )
