"""Variables and objects for all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from horovod.common.process_sets import global_process_set, root_in_set, within_its_set

import kungfu_tf as kf

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_variables"]


@within_its_set
def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: Any = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives all processes the variables of one of them. In a graph it returns the operation."""
    del inplace, process_set
    return kf.initializer.broadcast_variables(variables, root=root_in_set(root_rank))


@within_its_set
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> Any:
    """Gives all processes the object of one of them, as a pickle."""
    del session, process_set
    root = root_in_set(root_rank)
    return kf.broadcast_object(obj, root=root, pickle=True, name=name or "broadcast_object")


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> Callable[[Any], Any]:
    """A function that does so with its argument."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


@within_its_set
def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> list[Any]:
    """Gives all processes the objects of all of them, as pickles."""
    del session, process_set
    return kf.all_gather_object(obj, pickle=True, name=name or "allgather_object")
