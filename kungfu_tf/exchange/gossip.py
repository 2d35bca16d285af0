"""Meetings of neighbours: a peer waits for those of its neighbours only, and not for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.widening import widened
from kungfu_tf.topology import Topology, check


class Gossip:
    """At a meeting a peer has Σⱼ W[i, j]·vⱼ of models in place of their mean.

    It counts the meetings, also those before their time, as at the end of `fit`. So the matrices of
    a topology follow each other, and its cycle is exact. Each TF1 graph has a count of its own.

    Args:
        graph: The topology that W is of. Its steps are the meetings.
    """

    def __init__(self, graph: Topology) -> None:
        self.topology = graph
        self._meetings = graph_state.State(
            lambda: graph_state.variable(0, tf.int64, "meetings/number")
        )

    @property
    def meetings(self) -> Any:
        """A variable: how many there were, the same on all peers."""
        return self._meetings.get()

    def mixed(self, variables: Sequence[Any], name: str) -> list[Any]:
        """The weighted sums of the variables at the next meeting, of halves in float32.

        Args:
            variables: Those of all meetings, the same ones on all peers.
            name: The name of the operation.

        Raises:
            InvalidArgumentError: If the topology makes no means.
        """
        values = [widened(v) for v in variables]
        if peer.is_single_process() or not values:
            return values
        check(self.topology, peer.size())
        number = tf.convert_to_tensor(self.meetings.assign_add(1)) - 1
        return ops.group_neighbor_all_reduce(values, topology=self.topology, step=number, name=name)
