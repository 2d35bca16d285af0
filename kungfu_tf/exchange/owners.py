"""Deals whole variables to owners, such that each has about as many bytes."""

from __future__ import annotations

from collections.abc import Sequence


def deal(sizes: Sequence[int], owners: int) -> list[int]:
    """The owner of each variable.

    The largest variable comes first. Each goes to the owner that has the least so far, of several
    to the lowest one. So no owner has more than sum(sizes) / owners + max(sizes).

    Args:
        sizes: The bytes of each variable, the same on all peers.
        owners: The number of owners, from 1.

    Returns:
        For each variable the number of its owner, from 0 to owners − 1.
    """
    loads = [0] * owners
    result = [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):  # stable: equal on all peers
        owner = loads.index(min(loads))
        result[i] = owner
        loads[owner] += sizes[i]
    return result
