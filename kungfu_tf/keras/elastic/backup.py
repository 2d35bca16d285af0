"""The place in the data at which a `BackupAndRestore` makes its backup, to continue there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.saving.backup_folder import one_backup
from kungfu_tf.upstream import generations

gfile = tf.io.gfile  # as Keras: the folder may be anywhere

_FILE = "kungfu_position.json"


class Backup:
    """One `BackupAndRestore`, on rank 0.

    Keras' backup has the epoch. A file beside it has the sample, the numbers of steps and samples
    so far, and the batch size, if policies may change it. In Keras 3 it is a part of the backup. In
    Keras 2 it is written after it, and used only if it is of the same step.

    Args:
        callback: The callback of Keras.
        model: The model that it backs up.
        elastic_run: The training.

    Raises:
        ValueError: If it makes backups at places where the remaining samples are unknown.
    """

    def __init__(self, callback: Any, model: Any, elastic_run: ElasticRun) -> None:
        if elastic_run.meets is Meets.NEVER and callback.save_freq != "epoch":
            raise ValueError(
                f"elastic.fit: BackupAndRestore with save_freq={callback.save_freq!r} cannot be: "
                "the peers do not meet in each step, so in the middle of an epoch rank 0 does not "
                "know which samples the others have trained on. Take save_freq='epoch', or an "
                "optimizer whose peers meet, as SynchronousSGDOptimizer"
            )
        self._callback = callback
        self._model = model
        self._elastic_run = elastic_run
        self._is_of_keras_3 = generations.package_of(model).generation == 3

    def restore(self) -> None:
        """Restores the model from a backup, and the place of the training."""
        callback, model, elastic_run = self._callback, self._model, self._elastic_run
        callback.set_model(model)
        callback.on_train_begin()
        epoch = self._epoch()
        if epoch is None:
            return
        step = generations.steps_of(model)
        try:
            with gfile.GFile(self._path()) as file:
                saved = json.loads(file.read())
        except (tf.errors.NotFoundError, ValueError):
            saved = {"step": None}
        if saved["step"] == step:
            elastic_run.resume(
                epoch=saved["epoch"],
                sample=saved["sample"],
                steps=saved["steps"],
                trained_samples=saved["trained"],
                batch_size=saved.get("batch_size"),
            )
        else:
            elastic_run.resume(epoch=epoch, steps=step)

    def begin_noting(self) -> None:
        """Writes the place of each backup from now on."""
        name = "_save_model" if self._is_of_keras_3 else "_backup"
        vars(self._callback)[name] = self._and_note(getattr(self._callback, name))

    def end_noting(self) -> None:
        """Undoes `begin_noting`."""
        for name in ("_save_model", "_backup"):
            vars(self._callback).pop(name, None)

    def _and_note(self, save: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            with self._one_backup():
                save(*args, **kwargs)
                self._note()

        return call

    def _one_backup(self) -> contextlib.AbstractContextManager[None]:
        return one_backup(self._callback) if self._is_of_keras_3 else contextlib.nullcontext()

    def _note(self) -> None:
        place, path = self._elastic_run.place, self._path()
        saved = {
            "epoch": place.epoch,
            "sample": place.sample,
            "step": generations.steps_of(self._model),
            "steps": self._elastic_run.all_steps,
            "trained": place.trained_samples,
            "batch_size": place.batch_size,
        }
        with gfile.GFile(path + ".new", "w") as file:
            file.write(json.dumps(saved))
        gfile.rename(path + ".new", path, overwrite=True)

    def _epoch(self) -> int | None:
        """The epoch to continue with; None if there is no backup."""
        if self._is_of_keras_3:
            epoch: int | None = self._model._initial_epoch
            return epoch
        saved = int(self._callback._training_state._ckpt_saved_epoch.numpy())
        if saved < 0:
            return None
        return saved + 1 if self._callback.save_freq == "epoch" else saved

    def _path(self) -> str:
        # In the folder that Keras removes with the backup.
        folders = [self._callback.backup_dir, *([] if self._is_of_keras_3 else ["chief"])]
        return "/".join([*map(str, folders), _FILE])
