"""Divides the cores of a host among its peers: each computes on its own, with as many threads.

Otherwise every peer would start as many threads as the host has cores, and they would take turns.
The system might also put a thread on the core of another peer. Both peers would then wait for each
other, and so would all peers, although a core is free.

Where peers outnumber cores each core has equally many of them, if that is possible. The system
would move them about, and some would share a core with more others than the rest: all wait for the
slowest.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kungfu_tf import config
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.placing import quota

_COMPUTING = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")  # the threads of one operation
_SCHEDULING = "TF_NUM_INTEROP_THREADS"  # the operations that run at the same time
# Users who set one of these place the threads themselves.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


class Cores(NamedTuple):
    """The cores that the launcher and its peers may use.

    Attributes:
        ids: Their numbers; neighbours share caches.
        number: How many of them can be busy at once: fewer where a container has a quota.
    """

    ids: Sequence[int]
    number: int


class Binding(NamedTuple):
    """The cores that each peer is bound to.

    Attributes:
        cores: By local rank; empty if the peers are not bound.
        why_not: For the user, the reason if they are not.
        sharers: The number of peers on each core.
    """

    cores: Sequence[frozenset[int]]
    why_not: str = ""
    sharers: int = 1

    @property
    def is_own(self) -> bool:
        """Whether each peer has cores that no other peer uses."""
        return bool(self.cores) and self.sharers == 1

    def of_peer(self, local_rank: int) -> frozenset[int] | None:
        """The cores that a peer stays on; None: it may run on any."""
        return self.cores[local_rank] if self.cores else None


UNBOUND = Binding(())


def cores() -> Cores:
    """The cores of this machine that this process may use."""
    ids = sorted(os.sched_getaffinity(0), key=_place)
    return Cores(ids, min(len(ids), quota.cores() or len(ids)))


def shared_by(peers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that give each peer its share: none for a single peer, none that are set."""
    if peers < 2:
        return {}
    wanted = _threads(max(1, cores().number // peers))
    return {name: str(number) for name, number in wanted.items() if name not in environ}


def bound(
    peers: int, environ: Mapping[str, str], *, may_change: bool = False, may_fall: bool = False
) -> Binding:
    """Binds each peer to cores, if these can be divided evenly and the user has not objected.

    All peers may also use the cores that remain.

    Args:
        peers: The number of peers on this host.
        environ: The user's environment.
        may_change: Whether that number may change later.
        may_fall: Whether some may be lost, and the others go on: they would share a core for good,
            and leave another one idle.
    """
    available = cores()
    if why_not := _why_unbound(peers, environ, available, may_change):
        return Binding((), why_not)
    if may_fall and peers > available.number:
        return Binding((), f"there are {peers} peers, and some may be lost")
    mine = available.ids
    if peers > len(mine):
        shared = [frozenset([mine[i % len(mine)]]) for i in range(peers)]
        return Binding(shared, sharers=peers // len(mine))
    share = available.number // peers
    rest = mine[share * peers :]
    return Binding([frozenset([*mine[share * i : share * (i + 1)], *rest]) for i in range(peers)])


def _why_unbound(peers: int, environ: Mapping[str, str], available: Cores, may_change: bool) -> str:
    mine, number = available
    if may_change:
        return "with -w the number of peers may change"
    if peers < 2:
        return "there is no other peer"
    if config.BIND_TO.get(environ=environ) == "none":
        return "KUNGFU_BIND_TO is none"
    if number < len(mine):  # what is used on one core stops another
        return f"a quota leaves {number} of {len(mine)}"
    if peers > number and peers % number != 0:
        return f"there are {peers} peers"
    for name in BINDING:
        if name in environ:
            return f"you have set {name}"
    # A peer with more threads than cores is meant to run on other cores, too.
    for name, most in _threads(max(1, number // peers)).items():
        if name in environ and not 1 <= _number(environ[name]) <= most:
            least = "" if most == 1 else "1 to "
            return f"you have set {name}={environ[name]}, and not {least}{most}"
    return ""


def describe(variables: Mapping[str, str], binding: Binding) -> str:
    """The message that tells the user about the shares."""
    number = cores().number
    listed = ", ".join(f"{name}={value}" for name, value in variables.items())
    parts = [f"each gets {listed}, unless you set these variables"] if variables else []
    if binding.cores:
        shared = f"a core with {plural(binding.sharers - 1, 'other')}"
        where = "its own cores" if binding.is_own else shared
        parts.append(f"each stays on {where}, unless KUNGFU_BIND_TO is none")
    else:
        parts.append(f"they are bound to no cores: {binding.why_not}")
    return f"the peers share {plural(number, 'core')}: {'; '.join(parts)}"


def _threads(share: int) -> dict[str, int]:
    """The threads of a peer that has `share` cores."""
    # An operation that waits, say for a file, must not hold up all others.
    return {**dict.fromkeys(_COMPUTING, share), _SCHEDULING: max(2, share)}


def _number(text: str) -> int:
    """The number, or 0 if the text is none: TensorFlow takes 0 for all cores."""
    return int(text) if text.isdecimal() else 0


def _place(core: int) -> tuple[int, ...]:
    """The package and the physical core that it belongs to."""
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        package, physical = (
            int((topology / name).read_text()) for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):
        return (0, core, core)
    return (package, physical, core)
