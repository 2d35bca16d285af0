"""Recognises the launcher that has started this process together with others."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf import errors
from kungfu_tf.config import ENVIRONMENT, SIZE
from kungfu_tf.environments import (
    indexed_job,
    keras_distribution,
    open_mpi,
    pmi,
    slurm,
    tf_config,
    torchrun,
)
from kungfu_tf.environments.placement import Placement, number

# What is told most on purpose comes first.
_ENVIRONMENTS = (tf_config, torchrun, open_mpi, pmi, slurm, indexed_job, keras_distribution)
TURN_OFF = "KUNGFU_ENVIRONMENT=none turns this off"


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of this process; None in a process that is one of one, or that kungfu-run started.

    Args:
        environ: The environment of this process.

    Raises:
        FailedPreconditionError: If two launchers tell it differently, or nothing tells the number
            of processes.
        InvalidArgumentError: If a variable of kungfu_tf cannot be parsed.
    """
    if environ.get("KUNGFU_SELF") or ENVIRONMENT.get(environ=environ) == "none":
        return None
    told = [place for one in _ENVIRONMENTS if (place := one.detect(environ)) is not None]
    sized = [_sized(place, environ) for place in told if place.size != 1]
    known = [place for place in sized if place.size > 0]
    if not known:
        if sized:
            raise errors.FailedPreconditionError(
                errors.linked(
                    "environment-size",
                    f"{sized[0].told(environ)} has started this process, and no variable tells the "
                    f"number of processes: set {SIZE.name}; {TURN_OFF}",
                )
            )
        return None
    first = known[0]
    for other in known[1:]:
        nests = first.can_be_nested and not other.can_be_nested
        if (first.rank, first.size) != (other.rank, other.size) and not nests:
            raise errors.FailedPreconditionError(
                errors.linked(
                    "environments-differ",
                    f"{first.told(environ)} makes this process rank {first.rank} of {first.size}, "
                    f"and {other.told(environ)} makes it rank {other.rank} of {other.size}: unset "
                    f"the variables of one; {TURN_OFF}",
                )
            )
    same = [one for one in known if (one.rank, one.size) == (first.rank, first.size)]
    chosen = next((one for one in same if one.leader or one.is_on_one_host), first)
    return None if chosen.size == 1 else chosen


def tasks_without_step(environ: Mapping[str, str]) -> int:
    """The tasks of a Slurm job in which the program runs without srun; 0 if there is no such job.

    Args:
        environ: The environment of this process.
    """
    tasks = number(environ, "SLURM_NTASKS") or 0
    has_step = "SLURM_STEP_NUM_TASKS" in environ
    is_off = ENVIRONMENT.get(environ=environ) == "none"
    return tasks if tasks > 1 and not has_step and not is_off and "SLURM_JOB_ID" in environ else 0


def _sized(place: Placement, environ: Mapping[str, str]) -> Placement:
    return place if place.size else place._replace(size=SIZE.get(environ=environ))
