"""The names by which peers match their operations, called tags.

A tag must be the same on every peer, even if one of them has built or traced more. So it contains
no path of a variable, no TensorFlow scope, and no count that outlives a graph:

    eager code     <name>, default <op>; calls are matched in the order of the program
    in a graph     <name>, default <op>/<function>/<place>

`<place>` counts the operations of this kind in the graph of one trace of the function. Those of
each group of peers are counted apart, as other peers do not have them. The body of
a cond or while is a graph of its own, called `<function>/<which of them>`. As the
operations of a graph run in any order, a name that is given several times in one graph gets `/1`,
`/2`, ... from the second time on. A tag that another name already has is skipped.
"""

from __future__ import annotations

import collections
import re
import threading
import weakref
from typing import Any

import tensorflow as tf

from kungfu_tf import context

_UNIQUE_NAME = re.compile(r"__(?:inference|forward|backward)_(.*)_\d+")


class _Places:
    """The counts of one graph."""

    def __init__(self) -> None:
        self.used_by: dict[int, collections.Counter[str]] = {}  # a group; 0: all peers
        self.nested: list[weakref.ref[Any]] = []  # the graphs of its conds and whiles


_lock = threading.Lock()
_places: weakref.WeakKeyDictionary[Any, _Places] = weakref.WeakKeyDictionary()


def make_tag(op: str, name: str | None) -> str:
    """The tag of a new operation at the current place in the program.

    Args:
        op: The kind, e.g. "all_reduce".
        name: The user's name for the operation.
    """
    if tf.executing_eagerly():
        return name or op
    graph = tf.compat.v1.get_default_graph()
    among = context.current().group
    group = 0 if among is None else among.number
    with _lock:
        base = name or f"{op}/{_path(graph)}"
        used = _places_of(graph).used_by.setdefault(group, collections.Counter())
        while True:
            place = used[base]
            used[base] += 1
            if name and not place:
                return base
            tag = f"{base}/{place}"
            if tag not in used:
                used[tag] = 1
                return tag


def monitored(tag: str) -> str:
    """The tag of an operation that counts towards the throughput, as the core recognises it."""
    return f"monitored/{tag}"


def title(op: str, name: str | None) -> str:
    """What messages call an operation that has no tag yet."""
    return f"{op} '{name}'" if name else op


def _places_of(graph: Any) -> _Places:
    return _places.setdefault(graph, _Places())


def _path(graph: Any) -> str:
    if getattr(graph, "is_control_flow_graph", False):
        nested = _places_of(graph.outer_graph).nested
        known = [reference() for reference in nested]
        if graph not in known:
            nested.append(weakref.ref(graph))
            known.append(graph)
        return f"{_path(graph.outer_graph)}/{known.index(graph)}"
    name = getattr(graph, "name", None)
    if name is None:
        return "graph"
    unique = _UNIQUE_NAME.fullmatch(name)
    return unique[1] if unique else name
