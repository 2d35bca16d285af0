"""A job that loses peers on purpose, and how long its training stands still."""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from measure import environment

SECONDS_TO_GO_ON = 180.0
STEPS_BETWEEN = 30  # before the next fault


class Step(NamedTuple):
    """That of one process.

    Attributes:
        ended: On the clock that all processes of a machine share.
        number: Of all steps that its weights have behind them, with this one.
        rank: Of the process.
        size: Of the job.
        pid: Of the process.
    """

    ended: float
    number: int
    rank: int
    size: int
    pid: int


def progress(steps: Sequence[Step]) -> list[Step]:
    """Those that no process had made before, in order: what is repeated after a loss is none."""
    first: list[Step] = []
    for step in sorted(steps):
        if not first or step.number > first[-1].number:
            first.append(step)
    return first


def usual(steps: Sequence[Step], fault: float) -> float:
    """The seconds from step to step before the fault, in the median."""
    ends = [step.ended for step in progress(steps) if step.ended < fault]
    return statistics.median(_gaps(ends[-STEPS_BETWEEN:]))


def pause(steps: Sequence[Step], fault: float) -> float:
    """The longest time without a new step since the fault, beyond a usual one."""
    made = progress(steps)
    before = max(step.ended for step in made if step.ended < fault)
    since = [step.ended for step in made if step.ended >= before]
    return max(_gaps(since)) - usual(steps, fault)


def take_over(steps: Sequence[Step], fault: float) -> float:
    """The time from the fault to the end of a newcomer's first step, beyond a usual one."""
    known = {step.pid for step in steps if step.ended < fault}
    return min(s.ended for s in steps if s.pid not in known) - fault - usual(steps, fault)


def _gaps(ends: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(ends)]


class Job:
    """A training that logs its steps, until the end of the context.

    Args:
        commands: Of its launchers.
        folder: For the logs of its peers; see `programs/step_log.py`.
        environ: Beside that of what is measured.
    """

    def __init__(
        self, commands: Sequence[Sequence[str]], folder: Path, environ: dict[str, str]
    ) -> None:
        self._folder = folder
        everything = {**environment(1), **environ}
        self._launchers = [
            subprocess.Popen(command, env=everything, stdout=sys.stderr, start_new_session=True)
            for command in commands
        ]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self._launchers:
            launcher.terminate()
        for launcher in self._launchers:
            try:
                launcher.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(launcher.pid, signal.SIGKILL)
                launcher.wait()

    def steps(self) -> list[Step]:
        return [step for path in self._folder.iterdir() for step in _steps_of(path)]

    def go_on(self, size: int, since: float = 0.0) -> list[Step]:
        """Waits for some new steps of so many peers. Returns all of that time and before."""
        deadline = time.monotonic() + SECONDS_TO_GO_ON
        while True:
            steps = self.steps()
            made = [s for s in progress(steps) if s.ended > since and s.size == size]
            if len(made) > STEPS_BETWEEN:
                return steps
            if time.monotonic() > deadline:
                raise TimeoutError(f"{size} peers make no steps in {SECONDS_TO_GO_ON:.0f} s")
            time.sleep(0.05)

    def pid(self, rank: int) -> int:
        """Of the peer that had this rank in its newest step; a negative one counts from the end."""
        newest = {step.pid: step for step in sorted(self.steps())}
        last = max(step.number for step in newest.values())
        in_time = [step for step in newest.values() if step.number >= last - 1]
        return sorted(in_time, key=lambda step: step.rank)[rank].pid

    def after(self, fault: Callable[[], None], size: int) -> tuple[list[Step], float]:
        """The steps until so many peers go on after the fault, and when that began."""
        began = time.perf_counter()
        fault()
        return self.go_on(size, since=time.perf_counter()), began

    def kill_launcher(self, number: int) -> None:
        self._launchers[number].kill()

    def kill(self, rank: int) -> None:
        os.kill(self.pid(rank), signal.SIGKILL)


def _steps_of(path: Path) -> Iterator[Step]:
    if path.name.isdigit():
        # A line that is being written has no end yet.
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                ended, *numbers = line.split()
                yield Step(float(ended), *map(int, numbers), pid=int(path.name))
