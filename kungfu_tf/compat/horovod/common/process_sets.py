"""Sets of processes: kungfu_tf's groups of peers, under Horovod's names.

Roots are ranks among all processes here, not those in the set.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

import tensorflow as tf

from kungfu_tf import context, errors, groups, peer

__all__ = [
    "ProcessSet",
    "add_process_set",
    "among",
    "forget_all",
    "global_process_set",
    "included",
    "process_sets_of_ids",
    "remove_process_set",
    "root_in_set",
    "within_its_set",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class ProcessSet:
    """Some of the processes. `hvd.init` or `add_process_set` gives it a number.

    Args:
        ranks_or_comm: Its ranks.

    Attributes:
        process_set_id: Its number, the same on all processes; None: it has none.
        ranks: Its ranks, ascending.
        mpi_comm: None: there is no MPI.

    Raises:
        ValueError: If they are not integers.
    """

    mpi_comm = None

    def __init__(self, ranks_or_comm: Any) -> None:
        ranks: list[Any] = list(ranks_or_comm) if isinstance(ranks_or_comm, Iterable) else [None]
        if not all(isinstance(rank, int) for rank in ranks):
            raise ValueError("a ProcessSet has a list of ranks; there are no MPI communicators")
        self.process_set_id: int | None = None
        self.group: groups.Group | None = None
        self._ranks: list[int] = sorted(ranks)

    @property
    def ranks(self) -> list[int]:
        """Its ranks among all processes."""
        return self._ranks

    def size(self) -> int | None:
        """How many processes it has; None without a number."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self) -> int | None:
        """This process' rank in it; None without a number."""
        return None if self.process_set_id is None else self.ranks.index(peer.rank_among_all())

    def included(self) -> bool:
        """Whether this process is in it."""
        return peer.rank_among_all() in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )


class _All(ProcessSet):
    """The set of all processes."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int]:
        return list(range(peer.size()))

    def rank(self) -> int:
        return peer.rank_among_all()

    def included(self) -> bool:
        return True


global_process_set = _All()
_sets: dict[int, ProcessSet] = {0: global_process_set}


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Gives a set a number. All processes call it, in the same order.

    Raises:
        ValueError: If there is a set of the same ranks.
        InvalidArgumentError: If the ranks differ between processes, or are no ranks.
    """
    return add_process_sets([process_set])[0]


def add_process_sets(process_sets: Iterable[ProcessSet | Sequence[int]]) -> list[ProcessSet]:
    """`add_process_set` for several: all of them, or none."""
    new = [s if isinstance(s, ProcessSet) else ProcessSet(s) for s in process_sets]
    known = [each.ranks for each in _sets.values()]
    for each in new:
        if each.ranks in known:
            raise ValueError(f"there is a process set of the same ranks: {each}")
        known.append(each.ranks)
    for each in new:
        each.group = groups.Group(each.ranks)
        each.process_set_id = min(set(range(len(_sets) + 1)) - set(_sets))
        _sets[each.process_set_id] = each
    return new


def remove_process_set(process_set: ProcessSet) -> bool:
    """Takes its number from a set. All processes call it, in the same order.

    Returns:
        False if it has none, or is that of all processes.
    """
    if not process_set.process_set_id:
        return False
    peer.barrier(name="remove_process_set")
    _forget(process_set)
    return True


def forget_all() -> None:
    """Takes their numbers from all sets, because the processes may be others from now on."""
    for process_set in [each for number, each in _sets.items() if number]:
        _forget(process_set)


def _forget(process_set: ProcessSet) -> None:
    del _sets[cast(int, process_set.process_set_id)]
    process_set.process_set_id = None
    if process_set.group is not None:
        process_set.group.close()
    process_set.group = None


def process_sets_of_ids() -> dict[int, list[int]]:
    """The ranks of each set that has a number."""
    return {number: each.ranks for number, each in _sets.items()}


def _known(process_set: ProcessSet | int) -> ProcessSet:
    if isinstance(process_set, int):
        if process_set not in _sets:
            raise ValueError(f"there is no process set {process_set}")
        return _sets[process_set]
    if _sets.get(cast(int, process_set.process_set_id)) is not process_set:
        raise ValueError(f"add_process_set has not been called: {process_set}")
    return process_set


def included(process_set: ProcessSet | int) -> bool:
    """Whether this process is in a set, which may be given by its number.

    Raises:
        ValueError: If it has no number.
    """
    return _known(process_set).included()


def among(process_set: ProcessSet | int) -> AbstractContextManager[None]:
    """Within it operations are those of a set.

    Raises:
        ValueError: If it has no number.
        tf.errors.InvalidArgumentError: If this process is not in it.
    """
    known = _known(process_set)
    try:
        return groups.among(known.group)
    except errors.InvalidArgumentError as error:
        raise tf.errors.InvalidArgumentError(None, None, str(error)) from None


def within_its_set(function: Function) -> Function:
    """Decorates a function: it works among the processes of its argument `process_set`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        with among(given.get("process_set", global_process_set)):
            return function(*args, **kwargs)

    return cast(Function, tf.autograph.experimental.do_not_convert(run))


def root_in_set(root_rank: int) -> int:
    """The rank within the set that counts here of a rank among all processes.

    Raises:
        tf.errors.InvalidArgumentError: If that is not in it.
    """
    group = context.current().group
    if group is None:
        return root_rank
    if root_rank not in group.ranks:
        raise tf.errors.InvalidArgumentError(
            None, None, f"root_rank {root_rank} is not in {list(group.ranks)}"
        )
    position: int = group.ranks.index(root_rank)
    return position
