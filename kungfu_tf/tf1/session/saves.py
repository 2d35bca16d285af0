"""Lets rank 0's checkpoints hold the average of models that differ between peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.context import trained_variables
from kungfu_tf.context.meets import Meets
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.graph_average import assigned_means
from kungfu_tf.tf1.session.rank0 import RunsOnRank0

v1 = tf.compat.v1


def can_average() -> bool:
    """Whether the peers' models of the current graph differ, and the peers meet at a gate."""
    graph = v1.get_default_graph()
    meets = Meets.of_all(a.meets for a in trained_variables.algorithms_of(graph))
    return meets is not Meets.NEVER and bool(
        gates.gates_of(graph) and trained_variables.differing_of(graph)
    )


class SaveAverage(tf.compat.v1.train.SessionRunHook):
    """Lets rank 0's savers save while all peers have the average; then each gets its own back.

    Only rank 0 may know when it saves, by its clock: so it tells the others after each step.

    Args:
        savers: `RunsOnRank0`s around `CheckpointSaverHook`s, which this hook calls.
    """

    def __init__(self, savers: Sequence[RunsOnRank0]) -> None:
        self._savers = savers

    def begin(self) -> None:
        self._variables = trained_variables.differing_of(v1.get_default_graph())
        self._means = assigned_means()
        self._given = [v1.placeholder(v.dtype.base_dtype, v.shape) for v in self._variables]
        pairs = zip(self._variables, self._given, strict=True)
        self._restored = tf.group(*[v.assign(value, read_value=False) for v, value in pairs])
        for saver in self._savers:
            saver.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        for saver in self._savers:
            saver.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        wanted = [saver.before_run(run_context) for saver in self._savers]
        return v1.train.SessionRunArgs([args.fetches for args in wanted if args is not None])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not gates.trains(run_context):
            return
        begun = [saver for saver in self._savers if saver.has_begun]
        due = [
            (saver, step)
            for saver, step in zip(begun, run_values.results, strict=True)
            if saver.hook._timer.should_trigger_for_step(step + saver.hook._steps_per_run)
        ]
        if not peer.all_reduce_int_max(bool(due)):
            return
        session = run_context.session
        own = session.run(self._variables)
        session.run(self._means)
        for saver, step in due:
            saver.after_run(run_context, run_values._replace(results=step))
        session.run(self._restored, dict(zip(self._given, own, strict=True)))

    def end(self, session: Any) -> None:
        for saver in self._savers:
            saver.end(session)
