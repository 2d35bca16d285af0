"""BlueFog's windows, for tensors and variables of TensorFlow.

A tensor cannot change: so what BlueFog does to the tensor of `win_create` happens to a variable, if
that is one, and is returned by `win_update`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from bluefog.tensorflow._graphs import processes
from bluefog.tensorflow.mpi_ops import rank, windows

import kungfu_tf as kf

_variables: dict[str, Any] = {}  # of the windows that were made of one
_counts_p = False


def win_create(tensor: Any, name: str, zero_init: bool = False) -> bool:
    """Makes a window, along the edges of the topology. All processes call it.

    Raises:
        ValueError: If there is one of this name.
    """
    if name in windows:
        raise ValueError(f"there is a window {name} already")
    graph = kf.topology.from_networkx(processes.graph)
    value = tf.convert_to_tensor(tensor)
    windows[name] = kf.ops.new_window(value, topology=graph, name=name, zeros=zero_init)
    if isinstance(tensor, tf.Variable):
        _variables[name] = tensor
    return True


def win_free(name: str | None = None) -> bool:
    """Ends a window, or all. All processes call it."""
    for each in get_current_created_window_names() if name is None else [name]:
        _window(each).free()
        del windows[each]
        _variables.pop(each, None)
    return True


def get_current_created_window_names() -> list[str]:
    """The names of the windows that there are."""
    return sorted(windows)


def _weights(own: float | None, others: Mapping[int, float] | None) -> dict[str, Any]:
    """As `Window.put` takes them; BlueFog's None is 1."""
    return {
        "self_weight": 1.0 if own is None else own,
        "weights": 1.0 if others is None else others,
    }


def neighbor_win_put(
    tensor: Any,
    name: str,
    self_weight: float | None = None,
    dst_weights: Mapping[int, float] | None = None,
    require_mutex: bool = False,
) -> bool:
    """Leaves a tensor for the out-neighbors, in the place of the last one."""
    del require_mutex
    _window(name).put(tensor, **_weights(self_weight, dst_weights))
    _changed(name)
    return True


def neighbor_win_accumulate(
    tensor: Any,
    name: str,
    self_weight: float | None = None,
    dst_weights: Mapping[int, float] | None = None,
    require_mutex: bool = False,
) -> bool:
    """Adds a tensor to what is left for the out-neighbors."""
    del require_mutex
    _window(name).accumulate(tensor, **_weights(self_weight, dst_weights))
    _changed(name)
    return True


def neighbor_win_get(
    name: str, src_weights: Mapping[int, float] | None = None, require_mutex: bool = False
) -> bool:
    """Fetches the tensors of the in-neighbors, for `win_update`."""
    del require_mutex
    _window(name).get(weights=1.0 if src_weights is None else src_weights)
    return True


win_put, win_accumulate, win_get = neighbor_win_put, neighbor_win_accumulate, neighbor_win_get


def win_update(
    name: str,
    self_weight: float | None = None,
    neighbor_weights: Mapping[int, float] | None = None,
    reset: bool = False,
    clone: bool = False,
    require_mutex: bool = False,
) -> Any:
    """The weighted sum of this process' tensor and what the in-neighbors have left.

    Raises:
        ValueError: If only one of the weights is given.
    """
    del require_mutex
    if (self_weight is None) != (neighbor_weights is None):
        raise ValueError("self_weight and neighbor_weights must be given together")
    window = _window(name)
    own, weights = processes.weights(rank())
    if self_weight is not None:
        own, weights = self_weight, dict(neighbor_weights or {})
    before = window.value
    result = window.update(self_weight=own, weights=weights, reset=reset)
    if clone:
        window.publish(before)
        return result
    _changed(name)
    return _variables.get(name, result)


def win_update_then_collect(name: str, require_mutex: bool = True) -> Any:
    """The sum of this process' tensor and all that was left for it, which is used once."""
    return win_update(
        name, 1.0, dict.fromkeys(_window(name).sources, 1.0), True, False, require_mutex
    )


def get_win_version(name: str) -> dict[int, int]:
    """How often each in-neighbor has put, or been got from, since the last `win_update`."""
    window = _window(name)
    return dict(zip(window.sources, window.versions().numpy().tolist(), strict=True))


def win_associated_p(name: str) -> float:
    """The weight p of push-sum; 1 if it is turned off."""
    weight = float(_window(name).weight)
    return weight if _counts_p else 1.0


def turn_on_win_ops_with_associated_p() -> None:
    """Lets `win_associated_p` tell the weight, which travels in any case."""
    global _counts_p
    _counts_p = True


def turn_off_win_ops_with_associated_p() -> None:
    """Lets `win_associated_p` be 1."""
    global _counts_p
    _counts_p = False


@contextlib.contextmanager
def win_mutex(
    name: str, for_self: bool = False, ranks: Sequence[int] | None = None
) -> Iterator[None]:
    """Nothing: no process writes into another one's memory, and what is left is taken whole."""
    del for_self, ranks
    _window(name)
    yield


@contextlib.contextmanager
def win_lock(name: str) -> Iterator[None]:
    """Nothing, as `win_mutex`."""
    _window(name)
    yield


def _window(name: str) -> kf.ops.Window:
    """The window of this name.

    Raises:
        ValueError: If there is none.
    """
    if name not in windows:
        raise ValueError(f"{name} is not found in the registered window object.")
    window: kf.ops.Window = windows[name]
    return window


def _changed(name: str) -> None:
    """Lets others get the tensor as it is now, and the variable follow it."""
    window = windows[name]
    window.publish(window.value)
    if name in _variables:
        _variables[name].assign(window.value)
