"""Makes the variables of a plain session equal before the first step that trains."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.replicas import broadcast, gates
from kungfu_tf.tf1.session.graph import extended


def make_equal(session: Any, fetches: Any) -> None:
    """Gives all peers rank 0's global variables if this run is the first that trains.

    A program whose graph has a `broadcast_variables` must do it itself.

    Args:
        session: A session whose graph has gates.
        fetches: The fetches of the run.
    """
    graph = session.graph
    if hasattr(session, "_kungfu_equal") or not gates.gates_reached(graph, fetches):
        return
    if not broadcast.is_in(graph):
        with graph.as_default(), extended(graph):
            operation = broadcast.values_from_root(tf.compat.v1.global_variables(), root=0)
        session.run(operation)
    session._kungfu_equal = True
