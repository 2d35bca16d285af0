"""Groups of peers: collectives among some of them.

While `among` a group, ranks and sizes are those of the group, and all operations are its own: the
surroundings carry it to where they are made.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kungfu_tf import context, errors, peer
from kungfu_tf.context import ordinals
from kungfu_tf.native import calls, libraries

_made: dict[int, Group] = {}


class Group:
    """Some of the peers, which do operations among themselves.

    All peers make it, those that are no members, too: with the same ranks, and in the same order
    if they make several. Then its members give it to operations, as `group`. Ranks, sizes, means
    and roots are those of the group there. A group's operations are matched among its members: two
    groups may do the same at once, under the same name.

    A group ends with its list of peers: after `resize`, or after the loss of a peer, make it anew.
    Functions that were traced with the old one must be traced again.

    Args:
        ranks: The ranks of its members, in any order. The group's own ranks are in ascending order.

    Attributes:
        ranks: The members' ranks among all peers, ascending.

    Raises:
        InvalidArgumentError: If the ranks differ between peers, of which it names two, or are none,
            repeat, or are no ranks.
        DeadlineExceededError: If a peer does not make it within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.

    Example:

    ```python
    evens = kf.Group(range(0, kf.size(), 2))
    if evens.included:
        mean = kf.ops.all_reduce(x, op="mean", group=evens)
    ```
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(sorted(int(rank) for rank in ranks))
        self.number = _add(self.ranks)
        self.algorithms = ordinals.Ordinals()  # that were used in it
        self._version = peer.membership_version()
        _made[self.number] = self

    @property
    def included(self) -> bool:
        """Whether this peer is a member."""
        return peer.rank_among_all() in self.ranks

    def rank(self) -> int:
        """This peer's position among the members, from 0.

        Raises:
            InvalidArgumentError: If it is no member.
        """
        self.check()
        return self.ranks.index(peer.rank_among_all())

    def size(self) -> int:
        """The number of members."""
        return len(self.ranks)

    def close(self) -> None:
        """Ends the group here. All peers should. Pending operations fail with CancelledError."""
        libraries.core().kungfu_remove_group(self.number)
        _made.pop(self.number, None)

    def check(self) -> None:
        """Checks that this peer may call operations of the group.

        Raises:
            AbortedError: If the list of peers has changed since the group was made, or the group is
                closed.
            InvalidArgumentError: If this peer is no member.
        """
        if self.number not in _made:
            raise errors.AbortedError(f"{self} is closed")
        if self._version != peer.membership_version():
            raise errors.AbortedError(
                f"{self} is of membership version {self._version}, and the peers are now those of "
                f"version {peer.membership_version()}: make the group anew"
            )
        if not self.included:
            raise errors.InvalidArgumentError(f"rank {peer.rank_among_all()} is not in {self}")

    def __repr__(self) -> str:
        return f"Group({list(self.ranks)})"


def among(group: Group | None) -> AbstractContextManager[None]:
    """Within it operations are those of the group; without one, those of the surroundings.

    Raises:
        TypeError: If it is no group.
        AbortedError: As from `Group.check`, as the next.
        InvalidArgumentError: If this peer is no member.
    """
    check_group(group)
    if group is None:
        return nullcontext()
    group.check()
    return context.within(group=group)


def check_group(group: Any) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is neither a group nor None.
    """
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"group is a kungfu_tf.Group, which all peers make, or None, not {group!r}")


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which will be called later, among the group of today's surroundings."""
    group = context.current().group

    @functools.wraps(function)
    def among_the_same(*arguments: Any) -> Any:
        with context.within(group=group):
            return function(*arguments)

    return among_the_same


def among_number(number: int) -> AbstractContextManager[None]:
    """`among` the group with this number; 0 is that of all.

    Raises:
        AbortedError: If there is none any more.
    """
    if number == 0:
        return context.within(group=None)
    if number not in _made:
        raise errors.AbortedError("the group of this operation is closed")
    return among(_made[number])


def _add(ranks: Sequence[int]) -> int:
    memory = (ctypes.c_int32 * len(ranks))(*ranks), ctypes.c_uint64()
    add = libraries.core().kungfu_add_group
    calls.run(add, memory[0], len(ranks), ctypes.byref(memory[1]), memory=memory)
    return memory[1].value
