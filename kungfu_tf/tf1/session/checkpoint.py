"""The trained variables of peers without a checkpoint.

An Estimator evaluates and predicts from the checkpoint in its directory. Only rank 0 has that, so
the other peers keep their trained variables in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kungfu_tf import context, peer

v1 = tf.compat.v1

_of_directory: dict[str, dict[str, Any]] = {}


def is_trained(directory: str) -> bool:
    """Whether all peers have trained what rank 0 keeps in `directory`."""
    return directory in _of_directory


def variables(directory: str) -> dict[str, Any] | None:
    """Trained variables by name; None on rank 0, which saves them, and before any training."""
    return None if peer.is_root() else _of_directory.get(directory)


def restoring(hooks: list[Any]) -> list[Any]:
    """The hooks of a session that is about to start."""
    values = context.current().restored
    return hooks if values is None else [_Restore(values), *hooks]


class Keep(tf.compat.v1.train.SessionRunHook):
    """Keeps the variables of a session when it ends.

    Args:
        directory: The folder of rank 0's checkpoints.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def end(self, session: Any) -> None:
        _of_directory[self._directory] = {}
        if not peer.is_root() and "tensorflow_estimator" in sys.modules:
            named = {variable.op.name: variable for variable in _globals(session)}
            _of_directory[self._directory] = session.run(named)


class _Restore(tf.compat.v1.train.SessionRunHook):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def after_create_session(self, session: Any, coord: Any) -> None:
        del coord
        for variable in _globals(session):
            if variable.op.name in self._values:
                initial = variable.initializer.inputs[1]
                session.run(variable.initializer, {initial: self._values[variable.op.name]})


def _globals(session: Any) -> list[Any]:
    found: list[Any] = session.graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
    return found
