"""Callbacks that live through several calls of `fit` as if they were one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.callbacks.policies import PolicyCallback

# These do their work in each call.
_OF_EACH_CALL = (BroadcastGlobalVariablesCallback, PolicyCallback)
_METHODS = ("on_train_begin", "on_epoch_begin", "on_train_end")


class CallbackLifetime:
    """Lets the callbacks see one training: one beginning, each epoch once, and one end.

    Args:
        callbacks: The callbacks of the program.
        begin: Called in place of a callback's `on_train_begin`, with the callback and that method.
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
        self._own: list[dict[str, Any]] = []  # methods of objects, such as a LambdaCallback's

    def __enter__(self) -> CallbackLifetime:
        for callback in self._callbacks:
            own = vars(callback)
            self._own.append({name: own[name] for name in _METHODS if name in own})
            self._ends.append(callback.on_train_end)
            others: dict[str, Any] = {"on_train_end": _nothing}
            if isinstance(callback, _OF_EACH_CALL):
                others["on_train_begin"] = self._each(callback, callback.on_train_begin)
            else:
                others["on_train_begin"] = self._once(callback, callback.on_train_begin)
                others["on_epoch_begin"] = _once_each(callback.on_epoch_begin)
            own.update(others)
        return self

    def __exit__(self, *error: Any) -> None:
        for callback, own in zip(self._callbacks, self._own, strict=True):
            for name in _METHODS:
                vars(callback).pop(name, None)
            vars(callback).update(own)

    def has_begun(self, callback: Any) -> bool:
        """Whether the training has begun for a callback on this peer."""
        return any(begun is callback for begun in self._begun)

    def end(self, logs: Any, *, but: tuple[type, ...] = ()) -> None:
        """Ends the training for each callback for which it has begun, except for some classes."""
        for callback, end in zip(self._callbacks, self._ends, strict=True):
            if self.has_begun(callback) and not isinstance(callback, but):
                end(logs)

    def _each(self, callback: Any, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(logs: Any = None) -> None:
            if not self.has_begun(callback):
                self._begun.append(callback)
            method(logs)

        return call

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
