"""Callbacks that live through several calls of `fit` as if they were one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf.fit.policies import PolicyCallback
from kungfu_tf.initializer import BroadcastGlobalVariablesCallback

# What these do belongs to each call.
_OF_EACH_CALL = (BroadcastGlobalVariablesCallback, PolicyCallback)


class Continued:
    """Lets the callbacks see one training: one beginning, each epoch once, and one end.

    Args:
        callbacks: Those of a program.
        begin: Called instead of a callback's on_train_begin, with the callback and that.
    """

    def __init__(
        self,
        callbacks: Sequence[Any],
        begin: Callable[[Any, Callable[[], None]], None] = lambda _callback, method: method(),
    ) -> None:
        self._callbacks = list(callbacks)
        self._begin = begin
        self._begun: list[Any] = []
        self._ends: list[Callable[..., Any]] = []

    def __enter__(self) -> Continued:
        for callback in self._callbacks:
            self._ends.append(callback.on_train_end)
            callback.on_train_end = _nothing
            if not isinstance(callback, _OF_EACH_CALL):
                callback.on_train_begin = self._once(callback, callback.on_train_begin)
                callback.on_epoch_begin = _once_each(callback.on_epoch_begin)
        return self

    def __exit__(self, *error: Any) -> None:
        for callback in self._callbacks:
            for method in ("on_train_begin", "on_epoch_begin", "on_train_end"):
                vars(callback).pop(method, None)

    def has_begun(self, callback: Any) -> bool:
        """Whether its training has begun, on this peer."""
        return any(begun is callback for begun in self._begun)

    def end(self, logs: Any, *, but: tuple[type, ...] = ()) -> None:
        """The training has ended, of which some kinds of callbacks saw nothing here."""
        for callback, end in zip(self._callbacks, self._ends, strict=True):
            if not isinstance(callback, but):
                end(logs)

    def _once(self, callback: Any, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(logs: Any = None) -> None:
            if not self.has_begun(callback):
                self._begun.append(callback)
                self._begin(callback, lambda: method(logs))

        return call


def _nothing(logs: Any = None) -> None:
    del logs


def _once_each(method: Callable[..., Any]) -> Callable[..., Any]:
    called = set()

    def call(epoch: int, logs: Any = None) -> None:
        if epoch not in called:
            called.add(epoch)
            method(epoch, logs)

    return call
