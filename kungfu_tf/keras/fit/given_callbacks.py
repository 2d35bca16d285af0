"""The callbacks that the program gave to `fit`, and what follows from them."""

from __future__ import annotations

from typing import Any

from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.callbacks.metric_average import MetricAverageCallback
from kungfu_tf.keras.callbacks.monitor import MonitorCallback
from kungfu_tf.keras.callbacks.policies import PolicyCallback
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


def as_list(callbacks: Any) -> list[Any]:
    """The callbacks as a list, from what `fit` takes: one, a nest of them, or a `CallbackList`."""
    if callbacks is None:
        return []
    lists = tuple(package.module.callbacks.CallbackList for package in generations.packages())
    if isinstance(callbacks, lists):
        return list(callbacks.callbacks)
    if isinstance(callbacks, (list, tuple)):
        return [c for part in callbacks for c in as_list(part)]
    return [callbacks]


def monitors_first(callbacks: list[Any]) -> list[Any]:
    """The callbacks, sorted so that all others see the logs of a MonitorCallback."""
    return sorted(callbacks, key=lambda c: not isinstance(c, MonitorCallback))


def has_ours(callbacks: list[Any]) -> bool:
    """Whether the program gave a callback that makes the peers equal."""
    return any(isinstance(c, BroadcastGlobalVariablesCallback) for c in callbacks)


def has_any_of_ours(callbacks: list[Any]) -> bool:
    """Whether a callback is one of kungfu_tf, by which the program shows that it averages."""
    return any(isinstance(c, Callback) for c in callbacks)


def averages_metrics(callbacks: list[Any]) -> bool:
    """Whether metrics are averaged even if `fit` does not know that the peers train together."""
    return any(isinstance(c, MetricAverageCallback) for c in callbacks)


def first_batch_size(callbacks: list[Any]) -> int | None:
    """The first batch size of the PolicyCallbacks; 0 for the data's own; None without any."""
    sizes = [c.first_batch_size for c in callbacks if isinstance(c, PolicyCallback)]
    return max(sizes, default=None)


def kinds_of_policies(callbacks: list[Any]) -> list[str] | None:
    """The kinds of all policies of PolicyCallbacks, in order; None without such a callback."""
    of_each = [c._policies.kinds for c in callbacks if isinstance(c, PolicyCallback)]
    return [kind for kinds in of_each for kind in kinds] if of_each else None


def check_every(callbacks: list[Any]) -> Any:
    """How often this peer compares its variables, by its own callback or the one that we add."""
    ours = [c for c in callbacks if isinstance(c, BroadcastGlobalVariablesCallback)]
    every = tuple(c.check_every for c in ours or [BroadcastGlobalVariablesCallback()])
    return every[0] if len(every) == 1 else every


def may_stop_early(callbacks: list[Any]) -> bool:
    """Whether a callback may stop the training in the middle of an epoch."""
    return any(_may_stop_early(c) for c in callbacks)


def _may_stop_early(callback: Any) -> bool:
    kind = type(callback)
    if kind.__module__.split(".")[0] in ("keras", "tf_keras", "kungfu_tf"):
        return kind.__name__ in ("TerminateOnNaN", "LambdaCallback")
    hooks = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
    plain = [package.module.callbacks.Callback for package in generations.packages()]
    return any(getattr(kind, hook) not in [getattr(p, hook, None) for p in plain] for hook in hooks)
