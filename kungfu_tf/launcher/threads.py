"""The peers of a host share its cores: each computes with as many threads as it has cores.

Left alone, every peer would start as many as the host has cores, and they would take turns.
"""

import os
from collections.abc import Mapping

_COMPUTING = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")  # of one operation
_SCHEDULING = "TF_NUM_INTEROP_THREADS"  # operations at the same time


def cores() -> int:
    """Those that the launcher may use, and so its peers."""
    return len(os.sched_getaffinity(0))


def shared_by(peers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that give each of `peers` its share; none where it is alone, or set already."""
    if peers < 2:
        return {}
    share = max(1, cores() // peers)
    wanted = {name: str(share) for name in _COMPUTING}
    # One that waits, as for a file, must not hold up all others.
    wanted[_SCHEDULING] = str(max(2, share))
    return {name: value for name, value in wanted.items() if name not in environ}


def describe(variables: Mapping[str, str]) -> str:
    """What is done, for who wants to know."""
    listed = ", ".join(f"{name}={value}" for name, value in variables.items())
    shared = "1 core" if cores() == 1 else f"{cores()} cores"
    return f"the peers share {shared}: {listed}, unless you set them"
