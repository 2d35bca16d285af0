"""The flags of horovodrun, which `kungfu-run -compat horovod` understands beside its own.

What only tunes Horovod is accepted without an effect. What would change what runs is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kungfu_tf.launcher.options.launch_error import LaunchError

_HOSTS = "kungfu-run starts the processes of its own host: run it on each host"


@dataclasses.dataclass(frozen=True)
class Row:
    """A flag of horovodrun that kungfu-run has not.

    Attributes:
        takes_value: Whether a value follows it.
        is_pair: Whether two numbers of seconds follow it, for `means`.
        means: The flag of kungfu-run that does the same.
        refused: Why it is refused. Without this and `means` it is accepted without an effect.
    """

    takes_value: bool = True
    is_pair: bool = False
    means: str = ""
    refused: str = ""


# Flags without an effect.
_IGNORED_SWITCH = Row(takes_value=False)
_IGNORED_VALUE = Row()

ROWS = {
    "num-proc": Row(means="np"),
    "hosts": Row(means="H"),
    "network-interface": Row(means="nic"),
    "network-interfaces": Row(means="nic"),
    "output-filename": Row(means="logdir"),
    "verbose": Row(takes_value=False, means="v"),
    "gloo": _IGNORED_SWITCH,
    "start-timeout": _IGNORED_VALUE,
    "gloo-timeout-seconds": _IGNORED_VALUE,
    "no-stall-check": _IGNORED_SWITCH,
    "stall-check": _IGNORED_SWITCH,
    "stall-check-warning-time-seconds": _IGNORED_VALUE,
    "stall-check-shutdown-time-seconds": _IGNORED_VALUE,
    "log-level": _IGNORED_VALUE,
    "log-with-timestamp": _IGNORED_SWITCH,
    "log-without-timestamp": _IGNORED_SWITCH,
    "log-hide-timestamp": _IGNORED_SWITCH,
    "no-log-hide-timestamp": _IGNORED_SWITCH,
    "prefix-output-with-timestamp": _IGNORED_SWITCH,
    "prefix-timestamp": _IGNORED_SWITCH,
    "mpi-threads-disable": _IGNORED_SWITCH,
    "no-mpi-threads-disable": _IGNORED_SWITCH,
    "tcp": _IGNORED_SWITCH,
    "num-nccl-streams": _IGNORED_VALUE,
    "disable-cache": _IGNORED_SWITCH,
    "fusion-threshold-mb": _IGNORED_VALUE,
    "cycle-time-ms": _IGNORED_VALUE,
    "cache-capacity": _IGNORED_VALUE,
    "thread-affinity": _IGNORED_VALUE,
    "hierarchical-allreduce": _IGNORED_SWITCH,
    "no-hierarchical-allreduce": _IGNORED_SWITCH,
    "hierarchical-allgather": _IGNORED_SWITCH,
    "no-hierarchical-allgather": _IGNORED_SWITCH,
    "torus-allreduce": _IGNORED_SWITCH,
    "no-torus-allreduce": _IGNORED_SWITCH,
    "autotune": _IGNORED_SWITCH,
    "no-autotune": _IGNORED_SWITCH,
    "autotune-log-file": _IGNORED_VALUE,
    "autotune-warmup-samples": _IGNORED_VALUE,
    "autotune-steps-per-sample": _IGNORED_VALUE,
    "autotune-bayes-opt-max-samples": _IGNORED_VALUE,
    "autotune-gaussian-process-noise": _IGNORED_VALUE,
    "ssh-port": Row(refused=_HOSTS),
    "p": Row(refused=_HOSTS),
    "ssh-identity-file": Row(refused=_HOSTS),
    "i": Row(refused=_HOSTS),
    "mpi": Row(takes_value=False, refused="peers do not use MPI"),
    "mpi-args": Row(refused="peers do not use MPI"),
    "jsrun": Row(takes_value=False, refused="peers do not use MPI"),
    "binding-args": Row(refused="KUNGFU_BIND_TO says on which cores peers run"),
    "config-file": Row(refused="give the flags themselves"),
    "check-build": Row(takes_value=False, refused="python -m kungfu_tf.info shows it"),
    "cb": Row(takes_value=False, refused="python -m kungfu_tf.info shows it"),
    "timeline-filename": Row(means="timeline"),
    "timeline-mark-cycles": _IGNORED_SWITCH,
    "no-timeline-mark-cycles": _IGNORED_SWITCH,
    "min-num-proc": Row(means="min-np"),
    "max-num-proc": Row(means="max-np"),
    "elastic-timeout": _IGNORED_VALUE,
    "slots-per-host": Row(refused="let -host-discovery-script print host:slots"),
    "reset-limit": Row(means="max-changes"),
    "blacklist-cooldown-range": Row(means="cooldown", is_pair=True),
}


def is_pair(word: str) -> bool:
    """Whether two values follow a flag, which mean `first-second`."""
    row = ROWS.get(word.lstrip("-"))
    return row is not None and row.is_pair


def implied(values: Mapping[str, Any]) -> dict[str, Any]:
    """What horovodrun's flags imply.

    A job with a least number of peers goes on without those that fail. With a program that finds
    hosts, others take their place.

    Args:
        values: The options of the command line that were given.
    """
    if "horovod" not in values.get("compat", ()):
        return {}
    found = {"on_failure": "survive-all", "respawn": True} if "host_script" in values else {}
    return {"on_failure": "survive-all", **found} if "min_np" in values or found else {}


def check(names: Sequence[str], compat: Sequence[str]) -> None:
    """Checks flags that only horovodrun has.

    Args:
        names: The flags of the command line.
        compat: The names of -compat.

    Raises:
        LaunchError: If one of them is refused, or -compat does not name horovod.
    """
    if "horovod" not in compat:
        means = ROWS[names[0]].means
        hint = f"; did you mean -{means}?" if means else ""
        raise LaunchError(
            f"there is no flag '--{names[0]}'{hint} (kungfu-run --help lists them): it is one of"
            " horovodrun's, which are understood with -compat horovod"
        )
    for name in names:
        if why := ROWS[name].refused:
            raise LaunchError(f"-{name} of horovodrun is missing in kungfu-run: {why}")
