"""The exchanges of gradients in a TF1 graph: noted while it is built, for who verifies its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kungfu_tf import config, context, peer
from kungfu_tf.verification import unverified


class Exchange(NamedTuple):
    """One.

    Attributes:
        variables: What is trained.
        mine: The gradients of this peer, where there are some: tensors or `tf.IndexedSlices`.
        exchanged: Those to go on with.
        keeps_equal: Whether peers that do so stay equal.
    """

    variables: list[Any]
    mine: list[Any]
    exchanged: list[Any]
    keeps_equal: bool


def note(
    variables: Sequence[Any], mine: Sequence[Any], exchanged: Sequence[Any], *, keeps_equal: bool
) -> None:
    """Notes one in the TF1 graph that is being built; nothing elsewhere."""
    if tf.compat.v1.executing_eagerly_outside_functions() or not config.VERIFY.get():
        return
    if context.current().is_private or peer.is_single_process():
        return
    unverified.note_graph(keeps_equal=keeps_equal)
    rows = zip(variables, mine, exchanged, strict=True)
    known = [row for row in rows if row[1] is not None and row[2] is not None]
    trained, before, after = ([row[i] for row in known] for i in range(3))
    graph = tf.compat.v1.get_default_graph()
    graph._kungfu_exchanges = [*of(graph), Exchange(trained, before, after, keeps_equal)]


def of(graph: Any) -> list[Exchange]:
    """All of a graph."""
    exchanges: list[Exchange] = getattr(graph, "_kungfu_exchanges", [])
    return exchanges
