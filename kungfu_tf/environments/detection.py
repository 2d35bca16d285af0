"""Recognises that another launcher has started several processes to train together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple


class Launcher(NamedTuple):
    """A launcher that tells the number of processes in the environment.

    Attributes:
        name: The name by which users know it.
        variable: The variable that tells the number.
        read: Parses the number; None if there are several processes, but their number is unknown.
        beside: Other variables that it sets: without them the first has another meaning.
        without: Better variables: if one of them is set, this row does not count.
    """

    name: str
    variable: str
    read: Callable[[str], int | None]
    beside: Set[str] = frozenset()
    without: Set[str] = frozenset()


class Several(NamedTuple):
    """A variable that stands for several processes.

    Attributes:
        launcher: The name of the launcher that sets it.
        variable: Its name.
        text: Its value.
        number: The number of processes, or None if it is unknown.
    """

    launcher: str
    variable: str
    text: str
    number: int | None


def detect(environ: Mapping[str, str]) -> Several | None:
    """The first variable that stands for several processes; None if there is none.

    Args:
        environ: The environment of this process.
    """
    for launcher in _LAUNCHERS:
        text = environ.get(launcher.variable)
        if not text or not launcher.beside <= environ.keys() or launcher.without & environ.keys():
            continue
        try:
            number = launcher.read(text)
        except (ValueError, TypeError, AttributeError):  # something else uses the variable
            continue
        if number is None or number > 1:
            return Several(launcher.name, launcher.variable, text, number)
    return None


def _tasks_of_tf_config(text: str) -> int:
    """The number of tasks that train: evaluators and parameter servers do not."""
    tasks = json.loads(text).get("cluster", {})
    return sum(len(tasks.get(kind, ())) for kind in ("chief", "master", "worker"))


def _addresses(text: str) -> int:
    return len(text.split(","))


def _unsaid(_text: str) -> None:
    """The index of a process does not tell the number of processes."""


_LAUNCHERS = (
    Launcher("TensorFlow", "TF_CONFIG", _tasks_of_tf_config),
    Launcher("torchrun or a similar launcher", "WORLD_SIZE", int, beside={"RANK"}),
    Launcher("Open MPI", "OMPI_COMM_WORLD_SIZE", int),
    Launcher("MPICH, or another MPI with PMI,", "PMI_SIZE", int, beside={"PMI_RANK"}),
    Launcher("srun", "SLURM_STEP_NUM_TASKS", int, beside={"SLURM_PROCID"}),
    Launcher("Slurm", "SLURM_NTASKS", int, without={"SLURM_STEP_NUM_TASKS"}),
    Launcher("an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", _unsaid),
    Launcher("Keras", "KERAS_DISTRIBUTION_NUM_PROCESSES", int),
    Launcher("Keras", "KERAS_DISTRIBUTION_JOB_ADDRESSES", _addresses),
)
