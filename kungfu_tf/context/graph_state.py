"""The state of an operation or an algorithm: variables that are made at their first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable


class State:
    """Variables that eager code and all functions share. Each TF1 graph has its own.

    If a `tf.function` uses them first, they are made outside it.

    Args:
        make: Makes the variables, by `variable`.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._eager: Any = None

    def get(self) -> Any:
        """The result of `make` for eager code, or for the current TF1 graph."""
        with tf.init_scope():
            if tf.executing_eagerly():
                if self._eager is None:
                    self._eager = self._make()
                return self._eager
            made = _kept_by(tf.compat.v1.get_default_graph())
            if self not in made:
                made[self] = self._make()
            return made[self]


def variable(value: Any, dtype: Any, name: str, *, device: str | None = "CPU:0") -> Any:
    """A variable that is not trained. In a TF1 graph it is one of the global variables.

    Args:
        value: The initial value, or a function that returns it.
        dtype: The dtype of its elements.
        name: Its name in graphs and checkpoints of TF1.
        device: Where it is; None: where TensorFlow places it.
    """
    with tf.device(device):
        # Past the variable creators of a function that is being traced.
        return ResourceVariable(value, trainable=False, dtype=dtype, name=f"kungfu/{name}")


def shared_by_key() -> dict[str, Any]:
    """The shared variables of eager code, or of the current TF1 graph, by their keys."""
    known: dict[str, Any] = _by_key.get()
    return known


def of_call(op: str, name: str | None, make: Callable[[], Any]) -> Any:
    """The state of an operation that is called here.

    Calls with one name share it. So do calls without a name in eager code. In a graph each call
    without a name has a state of its own, which lives as long as the graph.

    Args:
        op: The kind of operation.
        name: The name that the user gave to the call.
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
    """The states that live as long as `graph`. A graph itself does not keep its variables."""
    kept: list[dict[State, Any]] = graph.get_collection_ref(_KEY)
    if not kept:
        kept.append({})
    return kept[0]


NOISE_SCALE = "noise_scale"  # a key of `shared_by_key`

_by_key = State(dict)
_KEY = ("kungfu_states",)  # a collection whose key is a tuple is not exported
_lock = threading.Lock()
_named: dict[tuple[str, str | None], State] = {}
