"""Warns a process that trains alone in a Slurm job of several tasks."""

from __future__ import annotations

import os

from kungfu_tf import config
from kungfu_tf.environments import detection
from kungfu_tf.upstream.warn import warn

_has_warned = False


def warn_if_alone() -> None:
    """Warns, once in a process, if the program of a Slurm job was not started by srun."""
    global _has_warned
    tasks = detection.tasks_without_step(os.environ)
    if _has_warned or config.identity().peer or not tasks or detection.detect(os.environ):
        return
    _has_warned = True
    warn(
        f"this process trains alone (kungfu_tf.size() is 1), but its Slurm job has {tasks} tasks: "
        f"SLURM_NTASKS={tasks}. Start the program with srun python ..., or set "
        f"{config.ENVIRONMENT.name}=none"
    )
