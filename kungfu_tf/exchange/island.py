"""Islands: peers that train in step with each other, while islands meet sometimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu_tf import errors, peer
from kungfu_tf.groups import Group

HOST = "host"


class Island:
    """The island of this peer.

    Args:
        given: A group with this peer; or "host", for the peers of each host.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._made: Group | None = None

    def check(self) -> None:
        """Checks that the job can have islands.

        Raises:
            UnimplementedError: If its peers may come or go.
        """
        if peer.elastic() or peer.survives():
            flag = "-w" if peer.elastic() else "-on-failure survive"
            raise errors.UnimplementedError(
                f"DiLoCoOptimizer(island=...) cannot be with kungfu-run {flag}: a group of peers "
                "ends when peers come or go"
            )

    def group(self) -> Group:
        """Its peers. With "host", all peers call it first at the same time."""
        if self._given != HOST:
            return self._given
        if self._made is None:
            names = [peer.name_of(rank) for rank in range(peer.size())]
            groups = [Group(ranks) for ranks in ranks_by_host(names)]
            [self._made] = [group for group in groups if group.included]
        return self._made


def ranks_by_host(names: Sequence[str]) -> list[list[int]]:
    """The ranks of each host.

    Args:
        names: The address of each rank's peer, "10.0.0.1:10000".
    """
    hosts: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        hosts.setdefault(name.rpartition(":")[0], []).append(rank)
    return list(hosts.values())


def check_island(island: Any) -> None:
    """Checks the argument of that name.

    Raises:
        TypeError: If it is neither a group, "host" nor None.
    """
    if island is not None and island != HOST and not isinstance(island, Group):
        raise TypeError(
            f'island is "host", or a kungfu_tf.Group of which this peer is a member, not {island!r}'
        )
