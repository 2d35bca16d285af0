"""The peers of a host share its cores: each computes on its own, with as many threads.

Left alone, every peer would start as many threads as the host has cores, and they would take turns.
The system may also put a waiting thread on the core of another peer. Both then wait for that turn
to end, and so do all peers in step, though a core is free.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kungfu_tf import config
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.placing import quota

_COMPUTING = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")  # of one operation
_SCHEDULING = "TF_NUM_INTEROP_THREADS"  # operations at the same time
# A user who sets one of these places the threads himself.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


class Cores(NamedTuple):
    """The cores that the launcher may use, and so its peers.

    Attributes:
        ids: On which they may run; neighbours share most.
        number: How many of these they can keep busy: fewer where a container has a quota.
    """

    ids: Sequence[int]
    number: int


def cores() -> Cores:
    """The cores of this machine, as far as this process may use them."""
    ids = sorted(os.sched_getaffinity(0), key=_place)
    return Cores(ids, min(len(ids), quota.cores() or len(ids)))


def shared_by(peers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that give each of `peers` its share; none where it is alone, or set already."""
    if peers < 2:
        return {}
    wanted = _threads(max(1, cores().number // peers))
    return {name: str(number) for name, number in wanted.items() if name not in environ}


class Binding(NamedTuple):
    """The cores that each peer stays on, or why there are none.

    Attributes:
        cores: By local rank; empty: peers run where there is room.
        why_not: The reason if there are none, for the user.
    """

    cores: Sequence[frozenset[int]]
    why_not: str = ""


def bound(peers: int, environ: Mapping[str, str], *, may_change: bool = False) -> Binding:
    """Cores for each of `peers`, where there are enough and it is wanted.

    All peers may use the remaining ones.

    Args:
        peers: How many there are on this host.
        environ: The user's environment.
        may_change: There may be more or fewer later.
    """
    available = cores()
    if why_not := _why_unbound(peers, environ, available, may_change):
        return Binding((), why_not)
    mine, share = available.ids, available.number // peers
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
    if number < len(mine):  # a core stands still for all that is used elsewhere
        return f"a quota leaves {number} of {len(mine)}"
    if peers > number:
        return f"there are {peers} peers"
    for name in BINDING:
        if name in environ:
            return f"you have set {name}"
    # More threads than a peer would have cores are meant to run on other cores, too.
    for name, most in _threads(number // peers).items():
        if name in environ and not 1 <= _number(environ[name]) <= most:
            least = "" if most == 1 else "1 to "
            return f"you have set {name}={environ[name]}, and not {least}{most}"
    return ""


def describe(variables: Mapping[str, str], binding: Binding) -> str:
    """A message about the shares, for the user."""
    number = cores().number
    listed = ", ".join(f"{name}={value}" for name, value in variables.items())
    told = [f"each gets {listed}, unless you set these variables"] if variables else []
    if binding.cores:
        told.append("each stays on its own, unless KUNGFU_BIND_TO is none")
    else:
        told.append(f"none has its own, for {binding.why_not}")
    return f"the peers share {plural(number, 'core')}: {'; '.join(told)}"


def _threads(share: int) -> dict[str, int]:
    """The threads of a peer that has `share` cores."""
    # One that waits, as for a file, must not hold up all others.
    return {**dict.fromkeys(_COMPUTING, share), _SCHEDULING: max(2, share)}


def _number(text: str) -> int:
    """0 if it is none: TensorFlow takes that for all cores."""
    return int(text) if text.isdecimal() else 0


def _place(core: int) -> tuple[int, ...]:
    """In which package, and in which physical core of it, it is."""
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        package, physical = (
            int((topology / name).read_text()) for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):
        return (0, core, core)
    return (package, physical, core)
