"""Mixing that begins after an update, and ends in the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.context import graph_state
from kungfu_tf.ops import begun
from kungfu_tf.topology import Topology


class Ahead:
    """What a peer has begun to mix, for each set of variables that an update changes.

    Args:
        graph: Who mixes with whom.
    """

    def __init__(self, graph: Topology) -> None:
        self._graph = graph
        self._sets: dict[Any, _Set] = {}

    def mixed(self, variables: Sequence[Any], name: str, otherwise: Callable[[], list[Any]]) -> Any:
        """The weighted sums that were begun for these variables, once they are here.

        Args:
            variables: The variables.
            name: The prefix of names.
            otherwise: Returns them, if nothing was begun.
        """
        one = self._of(variables)

        def end() -> list[Any]:
            one.is_under_way.get().assign(value=False)
            return one.end(name)

        return tf.nest.flatten(tf.cond(one.is_under_way.get().read_value(), end, otherwise))

    def begin(self, variables: Sequence[Any], name: str, step: Any) -> None:
        """Begins to mix the values that the variables have now, by the matrix of a step."""
        one = self._of(variables)
        ops.begin_group_neighbor_all_reduce(
            [v.read_value() for v in variables],
            topology=self._graph,
            step=step,
            name=one.name_in(name),
        )
        one.is_under_way.get().assign(value=True)

    def settle(self, name: str) -> None:
        """Ends what is under way, whose results nobody wants any more. Eager; all peers call it."""
        for one in self._sets.values():
            if one.is_under_way.get():
                one.is_under_way.get().assign(value=False)
                one.end(name)

    def drop(self, name: str) -> None:
        """Cancels what is under way. Eager; all peers call it."""
        for one in self._sets.values():
            one.is_under_way.get().assign(value=False)
        begun.drop(f"{name}/ahead/")

    def _of(self, variables: Sequence[Any]) -> _Set:
        key = tuple(v.ref() for v in variables)
        return self._sets.setdefault(key, _Set(len(self._sets), variables))


class _Set:
    def __init__(self, number: int, variables: Sequence[Any]) -> None:
        self._number = number
        self._specs = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        self.is_under_way = graph_state.State(
            lambda: graph_state.variable(False, tf.bool, "ahead/is_under_way")
        )

    def name_in(self, name: str) -> str:
        return f"{name}/ahead/{self._number}"

    def end(self, name: str) -> list[Any]:
        return ops.end_group_all_reduce(self._specs, name=self.name_in(name))
