"""The state of a model's algorithms, in a file beside the weights of a backup.

It cannot be a part of them: Keras takes an optimizer's state only if it has as many variables as
the plain optimizer.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.keras.saving import packed_values
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

_FILE = "kungfu_algorithms.npz"

gfile = tf.io.gfile  # as Keras: the folder may be anywhere


def save(model: Any, folder: Any) -> None:
    """Writes what is equal on all peers, if there is something."""
    variables = _variables_of(model)
    if not variables:
        return
    with gfile.GFile(_path(folder), "wb") as file:
        file.write(packed_values.pack(variables))


def exists(folder: Any) -> bool:
    """Whether it is there."""
    return bool(gfile.exists(_path(folder)))


def restore(model: Any, folder: Any) -> None:
    """Reads it, if it is there.

    Raises:
        UnimplementedError: If it is of several algorithms, and one makes variables in its first
            step, as DiLoCo does: only a step shows which optimizer trains what.
        ValueError: If it is of other algorithms, or of another model.
    """
    if not exists(folder):
        return
    if len(algorithms := generations.algorithms_of_model(model)) == 1:
        algorithms[0].build(local_variables.averaged(model.trainable_variables))
    with gfile.GFile(_path(folder), "rb") as file:
        values = packed_values.unpack(file.read())
    variables = _variables_of(model)
    if len(algorithms) > 1 and len(values) > len(variables):
        raise errors.UnimplementedError(
            f"{_path(folder)} has the state of {len(algorithms)} distributed optimizers, and one "
            "makes its variables in its first step, as DiLoCoOptimizer does: BackupAndRestore "
            "cannot resume such a model. Remove the backup, and train anew; or in a loop of your "
            "own keep each optimizer's kungfu_algorithm.state in a tf.train.Checkpoint"
        )
    if not packed_values.fit(values, variables):
        raise ValueError(
            f"{_path(folder)} has the state of other distributed optimizers than those of this "
            f"model: {len(values)} variables, and not {len(variables)} of the same shapes. Train "
            "with the optimizers that the backup was made with, or remove it"
        )
    packed_values.assign(variables, values)


def _variables_of(model: Any) -> list[Any]:
    return [v for algorithm in generations.algorithms_of_model(model) for v in algorithm.variables]


def _path(folder: Any) -> str:
    return f"{folder}/{_FILE}"
