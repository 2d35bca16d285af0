"""Equal variables on all peers before training."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from kungfu.python._taking_in import comes_in
from kungfu.tensorflow.ops import broadcast

import kungfu_tf as kf
from kungfu_tf.initializer import BroadcastGlobalVariablesHook, BroadcastGlobalVariablesOp

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "BroadcastGlobalVariablesHook",
    "BroadcastGlobalVariablesOp",
    "broadcast",
    "broadcast_variables",
]


def BroadcastGlobalVariablesCallback(with_keras: bool = False) -> Any:  # noqa: N802 (KungFu's)
    """Starts all peers of a `fit` from rank 0's model, of `keras` or `tf.keras`."""
    del with_keras
    if tf.compat.v1.executing_eagerly_outside_functions():
        return kf.initializer.BroadcastGlobalVariablesCallback()
    from kungfu.tensorflow.initializer.keras import BroadcastInGraph

    return BroadcastInGraph()


@comes_in
def broadcast_variables(variables: Any) -> Any:
    """Gives all peers the values that rank 0 has."""
    return kf.initializer.broadcast_variables(variables)
