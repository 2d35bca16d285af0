"""Faults in kungfu_tf/environments/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="slurm-has-never-requeued",
        file="kungfu_tf/environments/slurm.py",
        text='return number(environ, "SLURM_RESTART_COUNT") or 0',
        fault="return 0",
        why="A job that Slurm has queued again is taken for a new one.",
        test="tests/python/unit/environments/test_environments.py",
    ),
    Mutant(
        name="each-node-leads",
        file="kungfu_tf/environments/node_list.py",
        text="addresses[0],",
        fault="addresses[rank],",
        why="Each node of SkyPilot or dstack waits for the others.",
        test="tests/python/unit/environments/test_environments.py",
    ),
    Mutant(
        name="launchers-may-disagree",
        file="kungfu_tf/environments/detection.py",
        text="if first.starts_processes and not other.starts_processes:",
        fault="if not other.starts_processes:",
        why="Of two launchers with different ranks one is believed.",
        test="tests/python/unit/environments/test_environments.py",
    ),
]
