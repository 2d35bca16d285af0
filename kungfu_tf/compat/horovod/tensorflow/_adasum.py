"""Horovod's optimizer that combines what the processes have updated, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from horovod.common.process_sets import included
from horovod.tensorflow._exchange import Options

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign, assign_when
from kungfu_tf.exchange.own_gradients import OwnGradients
from kungfu_tf.replicas import local_variables

__all__ = ["with_adasum"]


class HorovodAdasum(OwnGradients):
    """v ← v₀ + Adasum over processes of (v − v₀), after every `passes`-th update.

    v₀ is v before the first of them.

    Args:
        wanted: Horovod's options.
    """

    def __init__(self, wanted: Options) -> None:
        self._wanted = wanted
        self._starts = graph_state.State(dict)  # by references of the variables
        self._updates = graph_state.State(
            lambda: graph_state.variable(0, tf.int64, "adasum/updates")
        )

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Remembers where the first of the updates starts."""
        if peer.is_single_process():
            return []
        shared = local_variables.averaged(variables)
        is_first = tf.equal(self._updates.get().read_value() % self._wanted.passes, 0)
        copies = lambda: [tf.raw_ops.DeepCopy(x=v.read_value()) for v in shared]  # noqa: E731
        return assign_when(is_first, self._starts_of(shared), copies)

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Combines the updates after the last of them."""
        if peer.is_single_process():
            return []
        shared = local_variables.averaged(variables)
        made = self._updates.get().read_value() + 1
        is_last = tf.equal(made % self._wanted.passes, 0)
        changed = assign_when(is_last, shared, lambda: self._combined(shared))
        with tf.control_dependencies(changed):
            return [*changed, *assign([self._updates.get()], [made])]

    def evaluated(self, variable: Any) -> Any:
        """The variable, which is the same on all processes after the last update."""
        return variable.read_value() if self._wanted.passes == 1 else None

    def _combined(self, variables: Sequence[Any]) -> list[Any]:
        starts = [start.read_value() for start in self._starts_of(variables)]
        moved = [v.read_value() - start for v, start in zip(variables, starts, strict=True)]
        sent = [self._wanted.compression.compress(delta) for delta in moved]
        updates = kf.ops.group_adasum([small for small, _ in sent], name=f"{self.name}/updates")
        return [
            start + self._wanted.compression.decompress(update, ctx)
            for start, update, (_, ctx) in zip(starts, updates, sent, strict=True)
        ]

    def _starts_of(self, variables: Sequence[Any]) -> list[Any]:
        starts = self._starts.get()
        with tf.init_scope():
            for v in variables:
                if v.ref() not in starts:
                    starts[v.ref()] = _start_of(v)
        return [starts[v.ref()] for v in variables]


def _start_of(variable: Any) -> Any:
    dtype = variable.dtype.base_dtype
    zeros = lambda: tf.zeros(variable.shape, dtype)  # noqa: E731
    return graph_state.variable(zeros, dtype, "adasum/start", device=None)


def with_adasum(optimizer: Any, wanted: Options) -> Any:
    """Changes an optimizer, and returns it: the processes combine its updates."""
    if not included(wanted.process_set):
        return optimizer  # this process trains alone
    return kf.optimizers.wrap(optimizer, lambda: HorovodAdasum(wanted), group=wanted.group)
