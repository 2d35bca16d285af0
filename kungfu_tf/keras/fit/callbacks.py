"""Which callbacks of `fit` run on this peer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf import config, peer
from kungfu_tf.context.running_fit import Fit
from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.callbacks.monitor import MonitorCallback
from kungfu_tf.keras.callbacks.policies import PolicyCallback
from kungfu_tf.keras.fit.elastic_run import FollowChanges, FollowSteps
from kungfu_tf.keras.fit.last_check import LastCheck
from kungfu_tf.keras.fit.saves import around_saves
from kungfu_tf.keras.fit.together import First, StopTogether, StopTogetherAtOnce
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback

_TELLERS = ("EarlyStopping", "LearningRateScheduler", "ReduceLROnPlateau")
# Not every version of Keras has all of them.
_WRITERS = ("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "OrbaxCheckpoint", "TensorBoard")


def as_list(callbacks: Any) -> list[Any]:
    """The callbacks that `fit` was given: one, a list, a nest, or a `CallbackList`."""
    if callbacks is None:
        return []
    lists = tuple(package.module.callbacks.CallbackList for package in generations.packages())
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
    """That of the PolicyCallbacks: 0 if all leave it to the data. None if there are none."""
    sizes = [c.first_batch_size for c in callbacks if isinstance(c, PolicyCallback)]
    return max(sizes, default=None)


def kinds_of_policies(callbacks: list[Any]) -> list[str] | None:
    """Those of all PolicyCallbacks, in their order. None if there is no such callback."""
    of_each = [c._policies.kinds for c in callbacks if isinstance(c, PolicyCallback)]
    return [kind for kinds in of_each for kind in kinds] if of_each else None


def prints() -> bool:
    """Whether this peer does: rank 0, for all."""
    return peer.is_root() or config.VERBOSE.get() == "all"


@contextlib.contextmanager
def quiet(callbacks: list[Any]) -> Iterator[None]:
    """Within it, of what Keras' callbacks do everywhere rank 0 alone tells."""
    keras = [package.module.callbacks for package in generations.packages()]
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
    mine = [c for c in callbacks if peer.is_root() or not isinstance(c, writers(fit.model))]
    first = [] if has_ours(mine) else [BroadcastGlobalVariablesCallback()]
    for callback in [*first, *mine]:
        if isinstance(callback, BroadcastGlobalVariablesCallback):
            callback.checks_first_step = fit.elastic_run is None or fit.elastic_run.step == 0
    last = StopTogetherAtOnce if stops_early and fit.is_synchronous else StopTogether
    before, after = around_saves(fit, callbacks) if fit.is_synchronous else ([], [])
    steps = [FollowSteps(fit.elastic_run)] if fit.elastic_run else []
    follow = [FollowChanges(fit.elastic_run, fit.differs)] if fit.elastic_run else []
    check = LastCheck(fit, [*first, *mine])
    return [*steps, First(fit), *first, *before, *mine, *after, last(fit), *follow, check]


def writers(model: Any) -> tuple[type, ...]:
    """The callbacks that write files, which only rank 0 has."""
    known = generations.package_of(model).module.callbacks
    return tuple(getattr(known, name) for name in _WRITERS if hasattr(known, name))


def may_stop_early(callbacks: list[Any]) -> bool:
    """Whether one of them may stop the training after a batch, and not at an epoch's end."""
    return any(_may_stop_early(c) for c in callbacks)


def _may_stop_early(callback: Any) -> bool:
    kind = type(callback)
    if kind.__module__.split(".")[0] in ("keras", "tf_keras", "kungfu_tf"):
        return kind.__name__ in ("TerminateOnNaN", "LambdaCallback")
    hooks = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
    plain = [package.module.callbacks.Callback for package in generations.packages()]
    return any(getattr(kind, hook) not in [getattr(p, hook, None) for p in plain] for hook in hooks)
