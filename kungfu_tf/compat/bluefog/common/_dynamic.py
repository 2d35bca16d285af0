"""Who sends to whom in each step, where each rank sends to one other: iterators without an end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

Ranks = tuple[list[int], list[int]]  # to which one sends, from which one receives


def GetDynamicOnePeerSendRecvRanks(topo: Any, self_rank: int) -> Iterator[Ranks]:  # noqa: N802
    """The targets of a graph one after the other, by their distance behind the rank."""
    size = topo.number_of_nodes()

    def target(rank: int, step: int) -> int:
        others = (other for other in topo.successors(rank) if other != rank)
        around = sorted(others, key=lambda other: (other - rank) % size)
        return around[step % len(around)]

    for step in itertools.count():
        senders = [rank for rank in range(size) if target(rank, step) == self_rank]
        yield [target(self_rank, step)], senders


def GetExp2DynamicSendRecvMachineRanks(  # noqa: N802
    world_size: int, local_size: int, self_rank: int, local_rank: int
) -> Iterator[Ranks]:
    """Machines at the distances 1, 2, 4, ...: the machines to send to and to receive from.

    Raises:
        AssertionError: If the machines have different numbers of processes, or there is only one.
    """
    _check(world_size, local_size)
    assert self_rank % local_size == local_rank, "ranks of a machine do not follow each other"
    machines, machine = world_size // local_size, self_rank // local_size
    assert machines > 1, "there is one machine only"
    for step in itertools.count():
        distance = _distance(step, machines - 1)
        yield [(machine + distance) % machines], [(machine - distance) % machines]


def GetInnerOuterRingDynamicSendRecvRanks(  # noqa: N802
    world_size: int, local_size: int, self_rank: int
) -> Iterator[Ranks]:
    """One rank of each machine sends to the next machine, the others in a ring of their machine.

    Raises:
        AssertionError: If the machines have different numbers of processes, or less than three.
    """
    return _inner_outer(world_size, local_size, self_rank, lambda step, others: 1)


def GetInnerOuterExpo2DynamicSendRecvRanks(  # noqa: N802
    world_size: int, local_size: int, self_rank: int
) -> Iterator[Ranks]:
    """As the last one, at the distances 1, 2, 4, ... of machines, and of ranks in a machine.

    Raises:
        AssertionError: If the machines have different numbers of processes, or less than three.
    """
    return _inner_outer(world_size, local_size, self_rank, _distance)


def _inner_outer(
    world_size: int, local_size: int, self_rank: int, distance: Callable[[int, int], int]
) -> Iterator[Ranks]:
    """`distance`: of a step, where so many others are in the circle."""
    _check(world_size, local_size)
    assert local_size > 2, "a machine has less than three processes"
    machines = world_size // local_size
    machine, place = divmod(self_rank, local_size)
    for step in itertools.count():
        goes_out = step % local_size
        if place == goes_out:
            far = distance(step, machines - 1)
            to, of = ((machine + sign * far) % machines for sign in (1, -1))
            yield [to * local_size + place], [of * local_size + place]
            continue
        # The circle of this machine without the one that goes out.
        circle = [other for other in range(local_size) if other != goes_out]
        here = circle.index(place)
        near = distance(step, len(circle) - 1)
        to, of = (circle[(here + sign * near) % len(circle)] for sign in (1, -1))
        yield [machine * local_size + to], [machine * local_size + of]


def _distance(step: int, others: int) -> int:
    """The powers of two up to the number of others, in turn."""
    return 1 << step % max(1, others.bit_length())


def _check(world_size: int, local_size: int) -> None:
    assert world_size % local_size == 0, "the machines have different numbers of processes"
