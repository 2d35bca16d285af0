"""The flags of horovodrun, which `kungfu-run -compat horovod` understands beside its own.

What only tunes Horovod is accepted without an effect. What would change what runs is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kungfu_tf.launcher.options.launch_error import LaunchError

_TUNES = "it tunes what kungfu_tf decides by itself"
_HOSTS = "kungfu-run starts the processes of its own host: run it on each host"
_ELASTIC = "programs of horovod.elastic.run are missing in kungfu_tf.compat"


@dataclasses.dataclass(frozen=True)
class Row:
    """A flag of horovodrun that kungfu-run has not.

    Attributes:
        takes_value: Whether a value follows it.
        means: The flag of kungfu-run that does the same.
        has_no_effect: Why it is accepted without an effect.
        refused: Why it is refused.
    """

    takes_value: bool = True
    means: str = ""
    has_no_effect: str = ""
    refused: str = ""


_SWITCH_TUNES = Row(takes_value=False, has_no_effect=_TUNES)
_VALUE_TUNES = Row(has_no_effect=_TUNES)

ROWS = {
    "num-proc": Row(means="np"),
    "hosts": Row(means="H"),
    "network-interface": Row(means="nic"),
    "network-interfaces": Row(means="nic"),
    "output-filename": Row(means="logdir"),
    "verbose": Row(takes_value=False, means="v"),
    "gloo": Row(takes_value=False, has_no_effect="peers need neither MPI nor Gloo"),
    "start-timeout": Row(has_no_effect="KUNGFU_COLLECTIVE_TIMEOUT limits all waiting"),
    "gloo-timeout-seconds": Row(has_no_effect="KUNGFU_COLLECTIVE_TIMEOUT limits all waiting"),
    "no-stall-check": Row(takes_value=False, has_no_effect="waiting has a limit"),
    "stall-check": Row(takes_value=False, has_no_effect="waiting has a limit"),
    "stall-check-warning-time-seconds": Row(has_no_effect="waiting has a limit"),
    "stall-check-shutdown-time-seconds": Row(has_no_effect="waiting has a limit"),
    "log-level": Row(has_no_effect="KUNGFU_LOG_LEVEL sets it"),
    "log-with-timestamp": Row(takes_value=False, has_no_effect="messages have one"),
    "log-without-timestamp": Row(takes_value=False, has_no_effect="messages have one"),
    "log-hide-timestamp": Row(takes_value=False, has_no_effect="messages have one"),
    "no-log-hide-timestamp": Row(takes_value=False, has_no_effect="messages have one"),
    "prefix-output-with-timestamp": Row(takes_value=False, has_no_effect="lines have a rank"),
    "prefix-timestamp": Row(takes_value=False, has_no_effect="lines have a rank"),
    "mpi-threads-disable": Row(takes_value=False, has_no_effect="there is no MPI"),
    "no-mpi-threads-disable": Row(takes_value=False, has_no_effect="there is no MPI"),
    "tcp": Row(takes_value=False, has_no_effect="there is no MPI"),
    "num-nccl-streams": Row(has_no_effect="there is no NCCL"),
    "disable-cache": _SWITCH_TUNES,
    "fusion-threshold-mb": _VALUE_TUNES,
    "cycle-time-ms": _VALUE_TUNES,
    "cache-capacity": _VALUE_TUNES,
    "thread-affinity": _VALUE_TUNES,
    "hierarchical-allreduce": _SWITCH_TUNES,
    "no-hierarchical-allreduce": _SWITCH_TUNES,
    "hierarchical-allgather": _SWITCH_TUNES,
    "no-hierarchical-allgather": _SWITCH_TUNES,
    "torus-allreduce": _SWITCH_TUNES,
    "no-torus-allreduce": _SWITCH_TUNES,
    "autotune": _SWITCH_TUNES,
    "no-autotune": _SWITCH_TUNES,
    "autotune-log-file": _VALUE_TUNES,
    "autotune-warmup-samples": _VALUE_TUNES,
    "autotune-steps-per-sample": _VALUE_TUNES,
    "autotune-bayes-opt-max-samples": _VALUE_TUNES,
    "autotune-gaussian-process-noise": _VALUE_TUNES,
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
    "timeline-filename": Row(refused="there is no timeline"),
    "timeline-mark-cycles": Row(takes_value=False, refused="there is no timeline"),
    "no-timeline-mark-cycles": Row(takes_value=False, has_no_effect="there is no timeline"),
    "min-num-proc": Row(refused=_ELASTIC),
    "max-np": Row(refused=_ELASTIC),
    "max-num-proc": Row(refused=_ELASTIC),
    "host-discovery-script": Row(refused=_ELASTIC),
    "slots-per-host": Row(refused=_ELASTIC),
    "elastic-timeout": Row(refused=_ELASTIC),
    "reset-limit": Row(refused=_ELASTIC),
    "blacklist-cooldown-range": Row(refused=_ELASTIC),
}


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
