"""Which callbacks of `fit` run on this peer, and ours among them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from kungfu_tf import _keras, config, ops, peer
from kungfu_tf._average import assign_means, average_variables, averaged_variables
from kungfu_tf._callback import Callback
from kungfu_tf.fit import agreement
from kungfu_tf.fit.data import build_metrics
from kungfu_tf.fit.monitor import MonitorCallback
from kungfu_tf.fit.policies import PolicyCallback
from kungfu_tf.fit.running import Fit
from kungfu_tf.fit.saves import around_saves
from kungfu_tf.fit.statistics import average_statistics
from kungfu_tf.initializer import BroadcastGlobalVariablesCallback, first_step

_log = logging.getLogger(__name__)

_TELLERS = ("EarlyStopping", "LearningRateScheduler", "ReduceLROnPlateau")
# Not every version of Keras has all of them.
_WRITERS = ("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "OrbaxCheckpoint", "TensorBoard")


def as_list(callbacks: Any) -> list[Any]:
    """The callbacks that `fit` was given: one, a list, a nest, or a `CallbackList`."""
    if callbacks is None:
        return []
    lists = tuple(package.module.callbacks.CallbackList for package in _keras.packages())
    if isinstance(callbacks, lists):
        return list(callbacks.callbacks)
    if isinstance(callbacks, (list, tuple)):
        return [c for part in callbacks for c in as_list(part)]
    return [callbacks]


def monitors_first(callbacks: list[Any]) -> list[Any]:
    """The same: all others see what a MonitorCallback writes into the logs."""
    return sorted(callbacks, key=lambda c: not isinstance(c, MonitorCallback))


def has_ours(callbacks: list[Any]) -> bool:
    """Whether the peers are made equal by a callback that the user gave."""
    return any(isinstance(c, BroadcastGlobalVariablesCallback) for c in callbacks)


def has_any_of_ours(callbacks: list[Any]) -> bool:
    """Whether the program averages by itself, or is told elsewhere that it does not."""
    return any(isinstance(c, Callback) for c in callbacks)


def first_batch_size(callbacks: list[Any]) -> int | None:
    """That of a PolicyCallback: 0 if it leaves that to the data. None if there is none."""
    sizes = [c.first_batch_size for c in callbacks if isinstance(c, PolicyCallback)]
    return sizes[0] if sizes else None


def prints() -> bool:
    """Whether this peer does: rank 0, for all."""
    return peer.is_root() or config.VERBOSE.get() == "all"


@contextlib.contextmanager
def quiet(callbacks: list[Any]) -> Iterator[None]:
    """Within it, of what Keras' callbacks do everywhere rank 0 alone tells."""
    keras = [package.module.callbacks for package in _keras.packages()]
    tellers = tuple(getattr(module, name) for module in keras for name in _TELLERS)
    quieted = [] if prints() else [c for c in callbacks if isinstance(c, tellers)]
    asked = [c.verbose for c in quieted]
    for callback in quieted:
        callback.verbose = 0
    try:
        yield
    finally:
        for callback, verbose in zip(quieted, asked, strict=True):
            callback.verbose = verbose


def check_every(callbacks: list[Any]) -> Any:
    """How often this peer compares with others: as its callback says, or one that is added."""
    ours = [c for c in callbacks if isinstance(c, BroadcastGlobalVariablesCallback)]
    every = tuple(c.check_every for c in ours or [BroadcastGlobalVariablesCallback()])
    return every[0] if len(every) == 1 else every


def arranged(fit: Fit, callbacks: list[Any], stops_early: bool) -> list[Any]:
    """What runs on this peer: the user's without what writes files, unless it is rank 0; and ours.

    Args:
        fit: What they are for.
        callbacks: What the user gave.
        stops_early: Whether some peer's training may stop after any batch.
    """
    known = _keras.package_of(fit.model).module.callbacks
    writers = tuple(getattr(known, name) for name in _WRITERS if hasattr(known, name))
    mine = [c for c in callbacks if peer.is_root() or not isinstance(c, writers)]
    first = [] if has_ours(mine) else [BroadcastGlobalVariablesCallback()]
    last = _StopTogetherAtOnce if stops_early and fit.is_synchronous else _StopTogether
    before, after = around_saves(fit, callbacks) if fit.is_synchronous else ([], [])
    return [_First(fit), *first, *before, *mine, *after, last(fit)]


def may_stop_early(callbacks: list[Any]) -> bool:
    """Whether one of them may stop the training after a batch, and not at an epoch's end."""
    return any(_may_stop_early(c) for c in callbacks)


def _may_stop_early(callback: Any) -> bool:
    kind = type(callback)
    if kind.__module__.split(".")[0] in ("keras", "tf_keras", "kungfu_tf"):
        return kind.__name__ in ("TerminateOnNaN", "LambdaCallback")
    hooks = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
    plain = [package.module.callbacks.Callback for package in _keras.packages()]
    return any(getattr(kind, hook) not in [getattr(p, hook, None) for p in plain] for hook in hooks)


class _First(Callback):
    """The first: what the others see, and save, at an epoch's end is of all peers."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        """Puts itself around the first step."""
        del logs
        model, data = self.model, self._fit.data
        model.train_function.kungfu_counts = data is not None and not data.is_even

        def first(train_function: Any, iterator: Any) -> Any:
            if data and not data.is_even:
                build_metrics(model, data.get_dataset().element_spec)
            logs = train_function(iterator)
            if data:
                data.warn_if_all_have_the_same()
            return logs

        first_step.around(model, first)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        average_statistics(self.model)
        if self._fit.differs:
            self._fit.average.enter_context(average_variables(self.model))

    def on_train_end(self, logs: Any = None) -> None:
        """What each peer has trained becomes one model, before callbacks look for the last time."""
        del logs
        if self._fit.differs:
            assign_means(averaged_variables(self.model), name="fit/average")


class _StopTogether(Callback):
    """The last: all peers start in the same epoch, and stop if one does."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        """What BackupAndRestore found, on rank 0, holds for all. (Keras 2 asks later.)"""
        del logs
        if _keras.package_of(self.model).generation == 3:
            (epoch,) = agreement.of_root([self.model._initial_epoch or 0])
            self.model._initial_epoch = epoch or None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras looks after the first batch whether a callback has asked to stop here."""
        del logs
        self._epoch = epoch
        self._agree(f"at the beginning of epoch {epoch + 1}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._fit.average.close()
        self._agree(f"at the end of epoch {epoch + 1}")

    def _agree(self, when: str) -> None:
        mine = np.array([bool(self.model.stop_training)], np.uint8)
        if not ops.all_reduce(mine, op="max", name="fit/stop").numpy().any():
            return
        self.model.stop_training = True
        ranks = np.flatnonzero(ops.all_gather(mine, concat=True, name="fit/who_stops").numpy())
        if len(ranks) < peer.size() and peer.is_root():
            who = ", ".join(map(str, ranks))
            _log.warning("fit: all peers stop %s, because rank %s does", when, who)


class _StopTogetherAtOnce(_StopTogether):
    """Also after a batch, which is called what Keras' callbacks call it: the first is 0."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        self._agree(f"after batch {batch} of epoch {self._epoch + 1}")
