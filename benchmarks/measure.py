"""Measures systems in turns, so that a disturbance hits all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from systems import CORES, ROOT, System

SECONDS_PER_RUN = 400
SECONDS_TO_END = 10
KUNGFU_RUN = (sys.executable, "-m", "kungfu_tf.launcher")
HOSTS = (sys.executable, str(ROOT / "benchmarks" / "hosts.py"))
Figures = dict[str, dict[str, list[float]]]  # by system and key, one of each round


class Failed(Exception):
    """A program did not report: what it printed."""


def environment(threads: int, tree: Path = ROOT) -> dict[str, str]:
    """For a process that is measured.

    Args:
        threads: For an operation of TensorFlow.
        tree: The checkout whose package it imports.
    """
    return {
        **os.environ,
        "PYTHONPATH": f"{tree}:{ROOT / 'benchmarks' / 'programs'}:{ROOT / 'examples'}",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": "2",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def reported(
    program: Path,
    *arguments: object,
    options: Sequence[str],
    threads: int = 1,
    seconds: float,
    launcher: Sequence[str] = KUNGFU_RUN,
    python: str = sys.executable,
) -> list[str]:
    """The lines that a job's rank 0 writes to the file that is the first argument of the program.

    Args:
        program: In Python; its output is shown.
        arguments: That follow the file.
        options: Of the launcher.
        threads: For an operation of TensorFlow.
        seconds: After which it is given up.
        launcher: What starts the job: kungfu-run, or `HOSTS`.
        python: The interpreter of the program.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        started = [python, str(program), str(report), *map(str, arguments)]
        command = [*launcher, *options, *started]
        environ = environment(threads)
        subprocess.run(command, env=environ, check=True, timeout=seconds, stdout=sys.stderr)
        return report.read_text().splitlines()


def once(system: System, peers: int, kind: str, keys: Sequence[str]) -> dict[str, float]:
    """Seconds or bytes by key, of one start of a system's program.

    Raises:
        Failed: It ended with an error, or took too long.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        command = [*system.start(peers), *system.programs[kind], str(report), *keys]
        environ = {**environment(max(1, CORES // peers)), **system.environ}
        status, output = _ended(system.name, command, environ)
        if status != 0 or not report.exists():
            raise Failed(f"{system.name}: exit status {status}\n{output[-3000:]}")
        lines = [line.split() for line in report.read_text().splitlines()]
    return {key: float(seconds) for key, seconds in lines}


def _ended(name: str, command: Sequence[str], environ: dict[str, str]) -> tuple[int, str]:
    """Exit status and output. One that takes too long is told to end its processes, too."""
    with subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS_PER_RUN)
        except subprocess.TimeoutExpired as error:
            process.terminate()
            try:
                process.communicate(timeout=SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
            raise Failed(f"{name}: nothing after {SECONDS_PER_RUN} s") from error
    return process.returncode, output


def require(systems: Iterable[System], kinds: Container[str] | None = None) -> None:
    """Ends this process with code 2 if a program is not there that measures one of these kinds.

    None: any kind.
    """
    for system in systems:
        for kind, (program, *_) in system.programs.items():
            if (kinds is None or kind in kinds) and not Path(program).exists():
                print(f"{program} is not there: `make bench-programs` builds it", file=sys.stderr)
                sys.exit(2)


def in_turns(
    systems: Sequence[System], peers: int, kind: str, keys: Sequence[str], rounds: int
) -> Figures:
    """What each of them takes, round by round. Of one that fails there is nothing.

    Every other round goes backwards, so that none is always the one that comes later.
    """
    figures: Figures = defaultdict(lambda: defaultdict(list))
    able = [s for s in systems if kind in s.programs and s.peers in (None, peers)]
    for turn in range(rounds):
        for system in able[:] if turn % 2 == 0 else able[::-1]:
            print(f"{kind}, {peers} processes, {turn + 1}/{rounds}: {system.name}", file=sys.stderr)
            try:
                for key, seconds in once(system, peers, kind, keys).items():
                    figures[system.name][key].append(seconds)
            except Failed as error:
                print(error, file=sys.stderr)
                able.remove(system)
                figures[system.name] = {}
    return figures
