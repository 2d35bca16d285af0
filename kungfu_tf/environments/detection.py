"""Recognises the launcher that has started this process together with others."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf import errors
from kungfu_tf.config import ENVIRONMENT, LEADER, SIZE
from kungfu_tf.environments import (
    indexed_job,
    keras_distribution,
    node_list,
    open_mpi,
    pmi,
    slurm,
    tf_config,
    torchrun,
)
from kungfu_tf.environments.placement import Placement, number, split_address

# What is told most on purpose comes first.
_ENVIRONMENTS = (
    *(tf_config, torchrun, open_mpi, pmi, slurm),
    *(indexed_job, keras_distribution, node_list),
)
TURN_OFF = f"{ENVIRONMENT.name}=none turns this off"


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of this process; None in a process that is one of one, or that kungfu-run started.

    Args:
        environ: The environment of this process.

    Raises:
        FailedPreconditionError: If two launchers tell it differently, nothing tells the number of
            processes, or that is too small for the rank.
        InvalidArgumentError: If a variable of kungfu_tf cannot be parsed.
    """
    if environ.get("KUNGFU_SELF") or ENVIRONMENT.get(environ=environ) == "none":
        return None
    told = [place for one in _ENVIRONMENTS if (place := one.detect(environ)) is not None]
    sized = [_sized(place, environ) for place in told if place.size != 1]
    known = [place for place in sized if place.size > 0]
    if sized and not known:
        message = (
            f"{sized[0].told(environ)} has started this process, and no variable tells the number "
            f"of processes: set {SIZE.name}; {TURN_OFF}"
        )
        raise errors.FailedPreconditionError(errors.linked("environment-size", message))
    if not known or known[0].size == 1:
        return None
    first = known[0]
    if (index := tf_config.parameter_server(environ)) is not None:
        mine = f"TF_CONFIG makes this process parameter server {index}"
        raise _disagreement(mine, first, environ)
    for other in known[1:]:
        _check_agreement(first, other, environ)
    _check_rank(first, environ)
    same = [place for place in known if (place.rank, place.size) == (first.rank, first.size)]
    place = next((place for place in same if place.leader or place.is_on_one_host), first)
    return _led(place, environ)


def nothing_to_do(environ: Mapping[str, str]) -> str | None:
    """Why this process of a job has nothing to do; None if it has, or is one of one.

    Args:
        environ: The environment of this process.

    Raises:
        FailedPreconditionError: If another launcher makes it one of several.
    """
    if environ.get("KUNGFU_SELF") or ENVIRONMENT.get(environ=environ) == "none":
        return None
    index = tf_config.parameter_server(environ)
    if index is None:
        return None
    detect(environ)  # there must be no other launcher
    return (
        f"TF_CONFIG makes this process parameter server {index}, and the workers own the "
        "variables: it has nothing to do"
    )


def doubt(environ: Mapping[str, str]) -> str | None:
    """Why a process that is one of one may be meant as one of several; None if nothing says so.

    Args:
        environ: The environment of this process.
    """
    if ENVIRONMENT.get(environ=environ) == "none":
        return None
    tasks = number(environ, "SLURM_NTASKS") or 0
    if "SLURM_JOB_ID" in environ and tasks > 1 and "SLURM_STEP_NUM_TASKS" not in environ:
        return (
            f"its Slurm job has {tasks} tasks: SLURM_NTASKS={tasks}. Start the program with srun "
            "python ..."
        )
    if mistake := tf_config.mistake(environ) or torchrun.mistake(environ):
        return f"{mistake}. Correct that"
    size = SIZE.get(environ=environ)
    if size > 1 and not any(one.detect(environ) for one in _ENVIRONMENTS):
        return f"{SIZE.name} is {size}. Start the program by a launcher that tells its rank"
    return None


def restarts(environ: Mapping[str, str]) -> int:
    """How often Slurm has started this job anew, whether this is a step of it or its script.

    Args:
        environ: The environment of this process.
    """
    return 0 if ENVIRONMENT.get(environ=environ) == "none" else slurm.restarts(environ)


def _sized(place: Placement, environ: Mapping[str, str]) -> Placement:
    return place if place.size else place._replace(size=SIZE.get(environ=environ))


def _led(place: Placement, environ: Mapping[str, str]) -> Placement:
    """The place with the host of rank 0, and its port, if that can be known."""
    text = LEADER.get(environ=environ)
    try:
        host, port = split_address(text)
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{LEADER.name}: {error}") from None
    here = "127.0.0.1" if place.is_on_one_host else ""
    return place._replace(leader=host or here or place.leader, port=port or place.port)


def _check_agreement(first: Placement, other: Placement, environ: Mapping[str, str]) -> None:
    if (first.rank, first.size) == (other.rank, other.size):
        return
    if first.starts_processes and not other.starts_processes:  # below the other one
        return
    told = f"{first.told(environ)} makes this process rank {first.rank} of {first.size}"
    raise _disagreement(told, other, environ)


def _check_rank(place: Placement, environ: Mapping[str, str]) -> None:
    if place.rank >= place.size:
        message = (
            f"{place.told(environ)} makes this process rank {place.rank} of {place.size}: ranks "
            "begin at 0, so one of the two numbers is wrong"
        )
        raise errors.FailedPreconditionError(errors.linked("environment-rank", message))


def _disagreement(
    told: str, other: Placement, environ: Mapping[str, str]
) -> errors.FailedPreconditionError:
    message = (
        f"{told}, and {other.told(environ)} makes it rank {other.rank} of {other.size}: unset the "
        f"variables of one; {TURN_OFF}"
    )
    return errors.FailedPreconditionError(errors.linked("environments-differ", message))
