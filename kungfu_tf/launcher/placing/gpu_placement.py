"""Which GPU each peer of this host gets."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.placing.cluster import Peer


@dataclasses.dataclass(frozen=True)
class Placement:
    """The value of CUDA_VISIBLE_DEVICES for each rank; if it is empty, nothing is set."""

    devices: Mapping[int, str]
    warning: str | None = None


def place(peers: Sequence[Peer], gpus: Sequence[str]) -> Placement:
    """Gives each peer the GPU of its slot, in turn and with a warning if there are too few."""
    if not gpus:
        return Placement({})
    devices = {peer.rank: gpus[peer.slot % len(gpus)] for peer in peers}
    shared = len(devices) - len(set(devices.values()))
    if not shared:
        return Placement(devices)
    return Placement(
        devices,
        f"{len(peers)} peers share {plural(len(gpus), 'GPU')}: each takes"
        " all of its memory unless told otherwise (TF_FORCE_GPU_ALLOW_GROWTH=true)",
    )


def visible_gpus(environ: Mapping[str, str], *, dev: Path = Path("/dev")) -> list[str]:
    """The GPUs for the job: those in CUDA_VISIBLE_DEVICES, else all of the machine.

    As in CUDA, the list ends at its first -1, and an empty list means none.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        found = (re.fullmatch(r"nvidia([0-9]+)", entry.name) for entry in dev.glob("nvidia*"))
        return [str(number) for number in sorted(int(match[1]) for match in found if match)]
    gpus: list[str] = []
    for name in (item.strip() for item in listed.split(",")):
        if not name or name.startswith("-") or name == "NoDevFiles":
            break
        gpus.append(name)
    return gpus
