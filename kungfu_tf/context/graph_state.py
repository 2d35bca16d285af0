"""State of an operation or an algorithm: variables that are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable


class State:
    """Variables that eager code and all functions share. Each TF1 graph has its own.

    If a `tf.function` asks for them first, they are made outside it.

    Args:
        make: Makes the variables, out of what `variable` returns.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._eager: Any = None

    def get(self) -> Any:
        """What `make` returned for the program around this place."""
        with tf.init_scope():
            if tf.executing_eagerly():
                if self._eager is None:
                    self._eager = self._make()
                return self._eager
            made = _kept_by(tf.compat.v1.get_default_graph())
            if self not in made:
                made[self] = self._make()
            return made[self]


def variable(value: Any, dtype: Any, name: str) -> Any:
    """A variable that is not trained. In a TF1 graph it is one of the global variables.

    Args:
        value: What it holds at first.
        dtype: Of its elements.
        name: In graphs and checkpoints of TF1.
    """
    with tf.device("CPU:0"):
        # Past the variable creators of a function that is being traced.
        return ResourceVariable(value, trainable=False, dtype=dtype, name=f"kungfu/{name}")


def shared_by_key() -> dict[str, Any]:
    """The variables of the program around this place, by their keys."""
    known: dict[str, Any] = _by_key.get()
    return known


def of_call(op: str, name: str | None, make: Callable[[], Any]) -> Any:
    """The state of an operation that is called here.

    Calls of one name share it. Calls without a name share one in eager code. In a graph each of
    them has its own, which lives as long as the graph.

    Args:
        op: The kind of operation.
        name: What the user calls it.
        make: As for `State`.
    """
    with _lock:
        if name is not None or tf.executing_eagerly():
            return _named.setdefault((op, name), State(make)).get()
        graph = tf.compat.v1.get_default_graph()
        while getattr(graph, "outer_graph", None) is not None:
            graph = graph.outer_graph
        state = State(make)
        variables = state.get()
        _kept_by(graph)[state] = variables
        return variables


def _kept_by(graph: Any) -> dict[State, Any]:
    """The states that live as long as `graph`, which itself does not keep its variables."""
    kept: list[dict[State, Any]] = graph.get_collection_ref(_KEY)
    if not kept:
        kept.append({})
    return kept[0]


NOISE_SCALE = "noise_scale"  # a key

_by_key = State(dict)
_KEY = ("kungfu_states",)  # what is called by a tuple is not exported
_lock = threading.Lock()
_named: dict[tuple[str, str | None], State] = {}
