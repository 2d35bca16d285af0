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
    """The same, in an order in which all others see the logs of a MonitorCallback."""
    return sorted(callbacks, key=lambda c: not isinstance(c, MonitorCallback))


def has_ours(callbacks: list[Any]) -> bool:
    """Whether the peers are made equal by a callback that the user gave."""
    return any(isinstance(c, BroadcastGlobalVariablesCallback) for c in callbacks)


def has_any_of_ours(callbacks: list[Any]) -> bool:
    """Whether one of them is of kungfu_tf. Then the program averages, or is warned elsewhere."""
    return any(isinstance(c, Callback) for c in callbacks)


def averages_metrics(callbacks: list[Any]) -> bool:
    """Whether metrics are averaged where the peers do not train together, too."""
    return any(isinstance(c, MetricAverageCallback) for c in callbacks)


def first_batch_size(callbacks: list[Any]) -> int | None:
    """That of the PolicyCallbacks: 0 if all leave it to the data. None if there are none."""
    sizes = [c.first_batch_size for c in callbacks if isinstance(c, PolicyCallback)]
    return max(sizes, default=None)


def kinds_of_policies(callbacks: list[Any]) -> list[str] | None:
    """The kinds of all PolicyCallbacks' policies, in order. None if there is no such callback."""
    of_each = [c._policies.kinds for c in callbacks if isinstance(c, PolicyCallback)]
    return [kind for kinds in of_each for kind in kinds] if of_each else None


def check_every(callbacks: list[Any]) -> Any:
    """How often this peer compares itself with others, by its own callback or an added one."""
    ours = [c for c in callbacks if isinstance(c, BroadcastGlobalVariablesCallback)]
    every = tuple(c.check_every for c in ours or [BroadcastGlobalVariablesCallback()])
    return every[0] if len(every) == 1 else every


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
