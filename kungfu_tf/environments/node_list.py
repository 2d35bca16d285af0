"""SkyPilot and dstack: they run a command once on each node, and tell it the addresses of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kungfu_tf.environments.placement import Placement, number


class _Names(NamedTuple):
    """A launcher, and the variables of the rank, the addresses line by line, and the job."""

    launcher: str
    rank: str
    addresses: str
    job: str


_LAUNCHERS = (
    _Names("SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_TASK_ID"),
    _Names("dstack", "DSTACK_NODE_RANK", "DSTACK_NODES_IPS", "DSTACK_RUN_NAME"),
)


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of the command of a node. Rank 0 is on the first node."""
    for names in _LAUNCHERS:
        rank, addresses = number(environ, names.rank), environ.get(names.addresses, "").split()
        if rank is not None and len(addresses) > 1:
            return Placement(
                names.launcher,
                (names.rank, names.addresses),
                rank,
                len(addresses),
                f"{environ.get(names.job)} {' '.join(addresses)}",
                addresses[0],
                local_rank=0,
                local_size=1,
                shares_home=False,
            )
    return None
