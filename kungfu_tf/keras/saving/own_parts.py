"""The parts of a backup that differ between peers, each in a file of its peer's.

Peers that train apart have models and optimizers of their own. At a backup each writes them into
the folder of rank 0's `BackupAndRestore`. A training resumes from them if all peers find theirs, as
on the same hosts, or in a folder that all share. Otherwise it resumes from what all have in common.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.keras.saving import algorithm_state, packed_values
from kungfu_tf.keras.saving.whole_file import is_local, written_whole
from kungfu_tf.replicas import local_variables
from kungfu_tf.replicas.objects import broadcast_object
from kungfu_tf.upstream import generations

_log = logging.getLogger(__name__)
_KEPT = 2  # rank 0 may be ended before its backup is complete, and the one before counts

gfile = tf.io.gfile


class OwnParts:
    """This peer's parts of the backups of a call of `fit`.

    Args:
        model: The model, whose peers meet sometimes.
        folder: That of rank 0's `BackupAndRestore`.
        is_kept: Whether that keeps its backup when the training is complete.
    """

    def __init__(self, model: Any, folder: str, *, is_kept: bool) -> None:
        self._model = model
        self._folder = folder
        self._is_kept = is_kept
        self._written: list[str] = []

    def save(self) -> None:
        """Writes this peer's part, before rank 0 makes its backup."""
        path = self._path()
        _write(path, packed_values.pack(self._variables()))
        self._written = [*(old for old in self._written if old != path), path]
        while len(self._written) > _KEPT:
            _remove(self._written.pop(0))

    def remove(self) -> None:
        """Removes what this peer has written, after a training that is complete."""
        while self._written and not self._is_kept:
            _remove(self._written.pop())

    def restore(self) -> None:
        """Gives each peer its part, if rank 0 has found a backup. All peers call it."""
        is_there = algorithm_state.exists(self._folder) if peer.is_root() else False
        if not broadcast_object(is_there, name="fit/has_backup"):
            return
        values, variables = _read(self._path()), self._variables()
        fits = np.uint8(packed_values.fit(values, variables))
        found = ops.all_gather(fits, name="fit/own_parts").numpy()
        if found.all():
            self._written.append(self._path())
            packed_values.assign(variables, values)
        elif peer.is_root():
            missing = peer.names_of(np.flatnonzero(found == 0).tolist())
            _log.warning(
                "fit: the models of the peers' own are not in the backup %s of %s: all resume from "
                "what they had in common",
                *(self._folder, missing),
            )

    def _variables(self) -> list[Any]:
        model = self._model
        states = [v for o in generations.optimizers_of(model) for v in generations.variables_of(o)]
        own = [v for a in generations.algorithms_of_model(model) for v in a.own_variables]
        trained = local_variables.averaged(model.trainable_variables)
        return [*trained, *map(generations.native, states), *own]

    def _path(self) -> str:
        schedules = [a.schedule for a in generations.algorithms_of_model(self._model)]
        steps = "-".join(str(int(schedule.steps)) for schedule in schedules)
        name = f"step-{steps}-rank-{peer.rank()}-of-{peer.size()}.npz"
        return f"{self._folder}/kungfu_own/{name}"


def _read(path: str) -> list[Any]:
    """The arrays of a file; none if there is none."""
    if not gfile.exists(path):
        return []
    with gfile.GFile(path, "rb") as file:
        return packed_values.unpack(file.read())


def _write(path: str, data: bytes) -> None:
    gfile.makedirs(path.rsplit("/", 1)[0])
    if is_local(path):
        with written_whole(Path(path)) as new:
            new.write_bytes(data)
        return
    with gfile.GFile(path, "wb") as file:
        file.write(data)


def _remove(path: str) -> None:
    with contextlib.suppress(tf.errors.NotFoundError):  # rank 0 removes the whole folder
        gfile.remove(path)
