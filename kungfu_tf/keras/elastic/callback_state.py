"""The state of Keras' callbacks, which newcomers get from rank 0."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from kungfu_tf import ops, peer
from kungfu_tf.upstream import generations

# By names of classes, which all versions of Keras have. Not every version has all attributes.
_ATTRIBUTES = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch"),
    "History": ("history", "epoch"),
    "ModelCheckpoint": ("best", "epochs_since_last_save", "_batches_seen_since_last_saving"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
}
_WEIGHTS = "best_weights"  # of EarlyStopping
_GROWS = "grows"  # of EarlyStopping: whether more is better, once it is known


class CallbackState:
    """The state of the callbacks of a training on this peer.

    Args:
        callbacks: The callbacks, as many on each peer, in the same order.
        model: The model that is trained.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any) -> None:
        self._callbacks = list(callbacks)
        self._model = model
        self._state_of_root: list[dict[str, Any]] = []

    def share(self, *, with_newcomers: bool) -> None:
        """Gives all peers the state of rank 0's callbacks. All call it.

        Args:
            with_newcomers: Whether some peers are new, and need the best weights, too.
        """
        gathered = b""
        while not gathered:  # rank 0 may be lost meanwhile
            mine = json.dumps([_state_of(c) for c in self._callbacks]) if peer.is_root() else ""
            data = np.frombuffer(mine.encode(), np.uint8)
            states = ops.all_gather(data, concat=True, name="fit/callback_state")
            gathered = states.numpy().tobytes()
        self._state_of_root = json.loads(gathered)
        for number, state in enumerate(self._state_of_root):
            if state.pop(_WEIGHTS, False) and with_newcomers:
                state[_WEIGHTS] = self._weights_of(number)
        for callback in self._callbacks:
            self.tell(callback)

    def tell(self, callback: Any) -> None:
        """Gives a callback the state that rank 0 has shared last."""
        number = [other is callback for other in self._callbacks].index(True)
        if peer.is_root() or number >= len(self._state_of_root):
            return
        state = dict(self._state_of_root[number])
        if state.pop("kind", None) == _kind(callback):
            _direct(callback, self._model, state.pop(_GROWS, None))
            vars(callback).update(state)

    def _weights_of(self, number: int) -> list[Any]:
        mine = None
        if number < len(self._callbacks):
            mine = getattr(self._callbacks[number], _WEIGHTS, None)
        roots = ops.group_broadcast(mine or self._model.get_weights(), name="fit/best_weights")
        return [weight.numpy() for weight in roots]


def _kind(callback: Any) -> str | None:
    names = [kind.__name__ for kind in type(callback).__mro__]
    return next((name for name in names if name in _ATTRIBUTES), None)


def _state_of(callback: Any) -> dict[str, Any]:
    kind = _kind(callback)
    state: dict[str, Any] = {"kind": kind}
    for name in _ATTRIBUTES.get(kind or "", ()):
        # A program's own metric may return anything.
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            state[name] = json.loads(json.dumps(getattr(callback, name), default=_plain))
    state[_WEIGHTS] = getattr(callback, _WEIGHTS, None) is not None
    if getattr(callback, "monitor_op", None) is not None:
        state[_GROWS] = callback.monitor_op.__name__ == "greater"
    return state


def _direct(callback: Any, model: Any, grows: bool | None) -> None:
    """Tells an EarlyStopping whether more is better.

    Before Keras 3.8 it finds that out at the end of an epoch, and forgets its best value then.
    """
    if grows is None or getattr(callback, "monitor_op", callback) is not None:
        return
    compare = generations.package_of(model).module.ops
    callback.monitor_op = compare.greater if grows else compare.less
    callback.min_delta = abs(callback.min_delta) * (1 if grows else -1)


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()
