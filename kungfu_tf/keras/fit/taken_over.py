"""Callbacks that write files on rank 0, when rank 0 is lost and the next one goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf import peer
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


def by_next_root(callback: Any, model: Any) -> Any | None:
    """What works in its place on a peer that is not rank 0; None if nothing can.

    A `ModelCheckpoint` works on every peer, and writes on rank 0 only. `CSVLogger`, `TensorBoard`
    and, in Keras 3, `BackupAndRestore` begin to work when the peer becomes rank 0.
    """
    known = generations.package_of(model).module.callbacks
    kind = type(callback)
    if kind is known.ModelCheckpoint:
        return _WrittenByRoot(callback)
    if kind is known.CSVLogger:
        return _FromNowOn(callback, _append)
    if kind is known.TensorBoard:
        return _FromNowOn(callback, lambda given, epoch: given.on_train_begin())
    if kind is known.BackupAndRestore and hasattr(callback, "_save_model"):
        return _FromNowOn(callback, _back_up)
    return None


def _append(logger: Any, epoch: int) -> None:
    del epoch
    logger.append = True
    logger.on_train_begin()


def _back_up(backup: Any, epoch: int) -> None:
    """Without its beginning, which would restore the last backup."""
    backup._current_epoch = epoch


class _FromNowOn(Callback):
    """A callback that begins to work when this peer becomes rank 0.

    Args:
        given: The callback.
        begin: Is called before its first work, with it and the epoch.
    """

    def __init__(self, given: Any, begin: Callable[[Any, int], None]) -> None:
        super().__init__()
        self._given = given
        self._begin = begin
        self._works = False
        self._epoch = 0

    def _call(self, hook: str, *args: Any) -> None:
        if not peer.is_root():
            return
        if not self._works:
            self._works = True
            self._given.set_params(self.params)
            self._given.set_model(self.model)
            self._begin(self._given, self._epoch)
        getattr(self._given, hook)(*args)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        self._call("on_epoch_begin", epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._call("on_train_batch_begin", batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._call("on_train_batch_end", batch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        self._call("on_test_begin", logs)

    def on_test_end(self, logs: Any = None) -> None:
        self._call("on_test_end", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._call("on_epoch_end", epoch, logs)

    def on_train_end(self, logs: Any = None) -> None:
        self._call("on_train_end", logs)


class _WrittenByRoot(Callback):
    """A `ModelCheckpoint` that writes only while this peer is rank 0."""

    def __init__(self, checkpoint: Any) -> None:
        super().__init__()
        self._checkpoint = checkpoint
        self._verbose = checkpoint.verbose

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self._checkpoint.set_model(_SavedByRoot(model))

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        self._checkpoint.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        self._checkpoint.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._checkpoint.on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._tell_on_root()
        self._checkpoint.on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._tell_on_root()
        self._checkpoint.on_epoch_end(epoch, logs)

    def _tell_on_root(self) -> None:
        self._checkpoint.verbose = self._verbose if peer.is_root() else 0


class _SavedByRoot:
    """A model whose files only rank 0 writes."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if peer.is_root():
            self._model.save(*args, **kwargs)

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        if peer.is_root():
            self._model.save_weights(*args, **kwargs)
