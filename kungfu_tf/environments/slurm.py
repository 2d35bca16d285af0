"""A step of Slurm: the tasks of an `srun`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number

_FIRST_OF_BRACKETS = re.compile(r"\[([^],-]+)[^]]*\]")


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a task. Rank 0 is on the first node of the step."""
    rank, size = number(environ, "SLURM_PROCID"), number(environ, "SLURM_STEP_NUM_TASKS")
    if rank is None or size is None:
        return None
    reserved = re.match(r"\d+", environ.get("SLURM_STEP_RESV_PORTS", ""))
    tasks = tasks_of_nodes(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = number(environ, "SLURM_NODEID")
    return Placement(
        "Slurm's srun",
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        rank,
        size,
        f"{environ.get('SLURM_JOB_ID')}.{environ.get('SLURM_STEP_ID')}",
        first_node(environ.get("SLURM_STEP_NODELIST", "")),
        int(reserved[0]) if reserved else 0,
        local_rank=number(environ, "SLURM_LOCALID"),
        local_size=tasks[node] if node is not None and node < len(tasks) else None,
        restarts=restarts(environ),
    )


def restarts(environ: Mapping[str, str]) -> int:
    """How often Slurm has queued the job again."""
    return number(environ, "SLURM_RESTART_COUNT") or 0


def first_node(nodes: str) -> str:
    """The first of a list of Slurm's: "n1" of "n[1-3,7],m[01-04]"."""
    first = re.split(r",(?![^\[]*\])", nodes)[0]
    return _FIRST_OF_BRACKETS.sub(r"\1", first)


def tasks_of_nodes(text: str) -> list[int]:
    """The tasks of each node: [3, 3, 1] of "3(x2),1"."""
    parts = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in parts for _ in range(int(times or 1))]
