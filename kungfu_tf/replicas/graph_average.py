"""The average of models that differ between the peers, in a TF1 graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context import trained_variables


def assigned_means() -> Any:
    """A new operation of the graph that gives all peers the means; None if no variables differ."""
    variables = trained_variables.differing_of(tf.compat.v1.get_default_graph())
    if not variables or peer.is_single_process():
        return None
    values = [v.read_value() for v in variables]
    means = ops.group_all_reduce(values, op="mean", name="session/average")
    pairs = zip(variables, means, strict=True)
    return tf.group(*[v.assign(mean, read_value=False) for v, mean in pairs])


class AverageAtEnd(tf.compat.v1.train.SessionRunHook):
    """Gives all peers the means when the session ends, before other hooks save the variables.

    Args:
        hooks: The hooks of the session on this peer.
    """

    def __init__(self, hooks: Sequence[Any]) -> None:
        saver = tf.compat.v1.train.CheckpointSaverHook
        self._savers = [hook for hook in hooks if isinstance(hook, saver)]
        self._means: Any = None

    def begin(self) -> None:
        self._means = assigned_means()

    def end(self, session: Any) -> None:
        if self._means is None or peer.detached():
            return
        session.run(self._means)
        for saver in self._savers:  # which have saved this peer's model after the last step
            saver._timer.reset()
