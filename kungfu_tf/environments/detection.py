"""Recognises processes that another launcher has started to train together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple


class Launcher(NamedTuple):
    """One that says in the environment how many processes there are.

    Attributes:
        name: What the user knows it by.
        variable: Where it says so.
        read: Makes the number of the variable's text; None: several, but not how many.
        beside: Variables that it sets, too: without them the first has another meaning.
        without: Variables that say more: with one of them this row does not count.
    """

    name: str
    variable: str
    read: Callable[[str], int | None]
    beside: Set[str] = frozenset()
    without: Set[str] = frozenset()


class Several(NamedTuple):
    """Several processes are meant.

    Attributes:
        launcher: Whose variable says so.
        variable: Its name.
        text: What it says.
        number: How many processes; None: it does not say.
    """

    launcher: str
    variable: str
    text: str
    number: int | None


def detect(environ: Mapping[str, str]) -> Several | None:
    """What the first launcher says that means several processes; None: none does.

    Args:
        environ: The environment of this process.
    """
    for launcher in _LAUNCHERS:
        text = environ.get(launcher.variable)
        if not text or not launcher.beside <= environ.keys() or launcher.without & environ.keys():
            continue
        try:
            number = launcher.read(text)
        except (ValueError, TypeError, AttributeError):  # of somebody else's, with another meaning
            continue
        if number is None or number > 1:
            return Several(launcher.name, launcher.variable, text, number)
    return None


def _tasks_of_tf_config(text: str) -> int:
    """The tasks that train: evaluators and parameter servers do not."""
    tasks = json.loads(text).get("cluster", {})
    return sum(len(tasks.get(kind, ())) for kind in ("chief", "master", "worker"))


def _addresses(text: str) -> int:
    return len(text.split(","))


def _unsaid(_text: str) -> None:
    """The index of a process tells nothing of their number."""


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
