"""TensorFlow's MultiWorkerMirroredStrategy, for the programs that run on several systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adapters import started

started.configure_tensorflow()
rank, size = started.rank, started.size
_options = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.RING
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=_options)
scope = strategy.scope
averages = True
may_loop = False  # "merge_call called while defining a new graph"


def optimizer(inner: Any) -> Any:
    return inner


def run(function: Callable[[], Any]) -> Any:
    return strategy.run(function)


def mean(tensors: list[Any], _name: str) -> list[Any]:
    placed = [tf.identity(tensor) for tensor in tensors]  # on the device of this replica
    return tf.distribute.get_replica_context().all_reduce("MEAN", placed, options=_options)
