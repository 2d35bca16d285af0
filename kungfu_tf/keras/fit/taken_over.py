"""Callbacks that write files on rank 0, when rank 0 is lost and the next one goes on with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf import ops, peer
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class Root(Callback):
    """Whether this peer is rank 0, for all callbacks of one hook alike. It comes before them.

    At the end of an epoch and of `fit` the peers meet first: so whoever is lost until then is known
    to be, and the files of that epoch are written once.
    """

    is_here = False

    def _look(self, *_: Any) -> None:
        self.is_here = peer.is_root()

    def _meet(self) -> None:
        ops.barrier(name="fit/root")
        self._look()

    def on_train_begin(self, logs: Any = None) -> None:
        self._look()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._look()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._look()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._meet()

    def on_train_end(self, logs: Any = None) -> None:
        self._meet()


def by_next_root(callback: Any, model: Any, root: Root) -> Any | None:
    """What works in its place on a peer that is not rank 0; None if nothing can.

    A `ModelCheckpoint` works on every peer, and writes on rank 0 only. `CSVLogger`, `TensorBoard`
    and, in Keras 3 and once per epoch, `BackupAndRestore` begin to work on the next rank 0.
    """
    package = generations.package_of(model)
    known, kind = package.module.callbacks, type(callback)
    if kind is known.ModelCheckpoint:
        return _WrittenByRoot(callback, root)
    if kind is known.CSVLogger:
        return _FromNowOn(callback, root, _begin_log)
    if kind is known.TensorBoard:
        return _FromNowOn(callback, root, _begin_board)
    if kind is known.BackupAndRestore and package.generation == 3 and callback.save_freq == "epoch":
        return _FromNowOn(callback, root, _begin_backup)
    return None


def _begin_log(logger: Any, done: int) -> None:
    del done
    append, logger.append = logger.append, True
    logger.on_train_begin()
    logger.append = append


def _begin_board(board: Any, done: int) -> None:
    board.on_train_begin()
    board._global_train_batch = done


def _begin_backup(backup: Any, done: int) -> None:
    """Does nothing: its own beginning would restore the last backup."""


class _FromNowOn(Callback):
    """A callback that begins to work when this peer becomes rank 0.

    Args:
        given: The callback.
        root: Tells whether this peer is rank 0.
        begin: Called before the callback's first hook, with it and the number of batches done.
    """

    def __init__(self, given: Any, root: Root, begin: Callable[[Any, int], None]) -> None:
        super().__init__()
        self._given = given
        self._root = root
        self._begin = begin
        self._works = False
        self._epoch: int | None = None
        self._tests = False
        self._done = 0

    def _call(self, hook: str, *args: Any) -> None:
        if not self._root.is_here:
            return
        if not self._works:
            self._works = True
            self._begin_now(hook)
        getattr(self._given, hook)(*args)

    def _begin_now(self, hook: str) -> None:
        """With the hooks that are open: those of the epoch and of a validation."""
        self._given.set_params(self.params)
        self._given.set_model(self.model)
        self._begin(self._given, self._done)
        if self._epoch is not None and hook != "on_epoch_begin":
            self._given.on_epoch_begin(self._epoch)
        if self._tests and hook != "on_test_begin":
            self._given.on_test_begin()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        self._call("on_epoch_begin", epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._call("on_train_batch_begin", batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._works:  # else it knows nothing of the batch's beginning
            self._call("on_train_batch_end", batch, logs)
        self._done += 1

    def on_test_begin(self, logs: Any = None) -> None:
        self._tests = True
        self._call("on_test_begin", logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._call("on_test_batch_begin", batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._call("on_test_batch_end", batch, logs)

    def on_test_end(self, logs: Any = None) -> None:
        self._call("on_test_end", logs)
        self._tests = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._call("on_epoch_end", epoch, logs)
        self._epoch = None

    def on_train_end(self, logs: Any = None) -> None:
        self._call("on_train_end", logs)


class _WrittenByRoot(Callback):
    """A `ModelCheckpoint` that writes only while this peer is rank 0."""

    def __init__(self, checkpoint: Any, root: Root) -> None:
        super().__init__()
        self._checkpoint = checkpoint
        self._verbose = checkpoint.verbose
        self._root = root

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self._checkpoint.set_model(_SavedByRoot(model, self._root))

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        self._checkpoint.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        self._checkpoint.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._checkpoint.on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        with self._told_by_root():
            self._checkpoint.on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        with self._told_by_root():
            self._checkpoint.on_epoch_end(epoch, logs)

    @contextlib.contextmanager
    def _told_by_root(self) -> Iterator[None]:
        self._checkpoint.verbose = self._verbose if self._root.is_here else 0
        try:
            yield
        finally:
            self._checkpoint.verbose = self._verbose


class _SavedByRoot:
    """A model whose files only rank 0 writes."""

    def __init__(self, model: Any, root: Root) -> None:
        self._model = model
        self._root = root

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._root.is_here:
            self._model.save(*args, **kwargs)

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        if self._root.is_here:
            self._model.save_weights(*args, **kwargs)
