"""The peers of a host share its cores: each computes on its own, with as many threads.

Left alone, every peer would start as many threads as the host has cores, and they would take turns.
And a thread that waits may be put where another peer computes: both wait for the end of that turn,
and so do all peers in step, though a core is free.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kungfu_tf import config, errors
from kungfu_tf.launcher import quota
from kungfu_tf.launcher.errors import LaunchError

_COMPUTING = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")  # of one operation
_SCHEDULING = "TF_NUM_INTEROP_THREADS"  # operations at the same time
# Who sets one of these has plans of his own.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


class Cores(NamedTuple):
    """What the launcher may use, and so its peers.

    Attributes:
        ids: On which they may run; neighbours share most.
        number: How many of these they can keep busy: fewer where a container has a quota.
    """

    ids: Sequence[int]
    number: int


def cores() -> Cores:
    """Of this process, with what it may use of them."""
    ids = sorted(os.sched_getaffinity(0), key=_place)
    return Cores(ids, min(len(ids), quota.cores() or len(ids)))


def shared_by(peers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that give each of `peers` its share; none where it is alone, or set already."""
    if peers < 2:
        return {}
    wanted = _threads(max(1, cores().number // peers))
    return {name: str(number) for name, number in wanted.items() if name not in environ}


def bound(peers: int, environ: Mapping[str, str]) -> Sequence[frozenset[int]]:
    """The cores that each of `peers` stays on; none where there are too few, or not wanted.

    Who asks for more threads than a peer would have cores wants them to run elsewhere. What is left
    over all may use. Under a quota a core is no peer's own: it stands still for all that is used
    elsewhere.

    Raises:
        LaunchError: KUNGFU_BIND_TO cannot be understood.
    """
    try:
        wanted = config.BIND_TO.get(environ=environ) == "cores"
    except errors.InvalidArgumentError as error:
        raise LaunchError(str(error)) from error
    mine, number = cores()
    if not wanted or number < len(mine) or not 2 <= peers <= len(mine):
        return ()
    share = len(mine) // peers
    most = _threads(share)
    if any(name in environ for name in BINDING) or any(
        not 1 <= _number(environ[name]) <= most[name] for name in most if name in environ
    ):
        return ()
    rest = mine[share * peers :]
    return [frozenset([*mine[share * i : share * (i + 1)], *rest]) for i in range(peers)]


def describe(variables: Mapping[str, str], is_bound: bool) -> str:
    """What is done."""
    ids, number = cores()
    shared = "1 core" if number == 1 else f"{number} cores"
    if number < len(ids):
        shared += f" (a quota of {len(ids)}: none has its own)"
    listed = ", ".join(f"{name}={value}" for name, value in variables.items())
    told = [f"{listed}, unless you set them"] if variables else []
    if is_bound:
        told.append("each stays on its own, unless KUNGFU_BIND_TO is none")
    return f"the peers share {shared}: {'; '.join(told)}"


def _threads(share: int) -> dict[str, int]:
    """Of a peer that has `share` cores."""
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
