"""Independent trainings: the orders for them, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kungfu_tf import errors
from kungfu_tf.engines import failures, orders
from kungfu_tf.engines.orders import Order
from kungfu_tf.function_launch import results
from kungfu_tf.function_launch.results import Child


def checked(caller: str, grid: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The arguments of each trial.

    Raises:
        TypeError: If the grid is invalid.
    """
    if isinstance(grid, Mapping):
        raise TypeError(f"{caller}: grid must be a list of keyword arguments, not {grid!r}")
    listed = list(grid)
    for item in listed:
        if not isinstance(item, Mapping):
            raise TypeError(f"{caller}: an item of grid must be keyword arguments, not {item!r}")
    return listed


def orders_of(
    fn: Callable[..., Any], grid: Sequence[Mapping[str, Any]], env: Mapping[str, str] | None
) -> list[Order]:
    """A job of one process for each trial.

    Raises:
        InvalidArgumentError: If the function or an argument cannot be pickled.
    """
    return [orders.new(fn, (), item, env).again(0) for item in grid]


def results_of(
    children: Sequence[Child], grid: Sequence[Mapping[str, Any]], *, return_errors: bool
) -> list[Any]:
    """The results of the trials, or the errors of those that failed.

    Args:
        children: How the process of each trial ended, in order.
        grid: Their arguments.
        return_errors: Whether an error stands in the place of the result; else the first is raised.
    """
    told = [_told(*one) for one in zip(children, grid, strict=True)]
    for one in told:
        if isinstance(one, errors.PeerFailedError) and not return_errors:
            raise one
    return told


def _told(child: Child, item: Mapping[str, Any]) -> Any:
    try:
        if not failures.has_failed(child):
            return results.value_of(child)
        error = results.failed(child)
    except errors.InvalidArgumentError as unreadable:
        error = errors.PeerFailedError(f"{child.who}: {unreadable}")
        error.rank, error.host, error.__cause__ = child.rank, child.host, unreadable
    listed = ", ".join(f"{name}={value!r}" for name, value in item.items())
    error.args = (f"trial {listed}: {error}",)
    return error
