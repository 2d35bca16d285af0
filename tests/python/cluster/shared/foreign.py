"""Processes that other launchers than kungfu-run start."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness import programs, warm
from harness.launch import environment

PROGRAM = programs.FOLDER / "started.py"
PATIENCE = 200
SECRET = "a secret of this test"

# It needs no TensorFlow, and so it starts at once.
SUMS = """
import os, signal, sys
import kungfu_tf as kf
from kungfu_tf import errors
largest = kf.all_reduce_int_max(10 * kf.rank())
told = kf.rank(), kf.size(), kf.local_rank(), kf.local_size(), largest
os.write(1, (" ".join(map(str, told)) + "\\n").encode())  # at once: lines of others come between
try:
    for step in range(1000):
        if sys.argv[1:] == [str(kf.rank())] and step == 100:
            os.kill(os.getpid(), signal.SIGKILL)
        kf.barrier()
except errors.UnavailableError as error:
    sys.exit(f"error: {error}")
"""

# From as many peers as it is given to as many as its arguments say, one after the other.
RESIZED = """
import os, sys
import kungfu_tf as kf
wanted = [int(text) for text in sys.argv[1:]]
if kf.joining():
    kf.resize()
    wanted = wanted[wanted.index(kf.size()):]
for size in wanted:
    while kf.size() not in (0, size):
        kf.resize(n=size)
    if kf.size() == 0:
        break
    told = kf.rank(), kf.size(), kf.local_rank(), kf.local_size()
    os.write(1, (" ".join(map(str, told)) + "\\n").encode())
"""


@contextlib.contextmanager
def running(
    command: Sequence[str], environs: Sequence[Mapping[str, str]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """A process with each of these, as somebody's launcher starts them."""
    processes = [
        subprocess.Popen(
            command,
            env=environment(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environ in environs
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ends(
    command: Sequence[str], environs: Sequence[Mapping[str, str]]
) -> list[tuple[int, str, str]]:
    """How each ends: its code, output and errors."""
    with running(command, environs) as processes:
        told = [process.communicate(timeout=PATIENCE) for process in processes]
        return [(process.returncode, *one) for process, one in zip(processes, told, strict=True)]


def sums(*arguments: str) -> list[str]:
    return [sys.executable, "-c", SUMS, *arguments]


def resized(*sizes: int) -> list[str]:
    return [sys.executable, "-c", RESIZED, *map(str, sizes)]


def fit(directory: Path) -> list[str]:
    return [*warm.python(environment()), str(PROGRAM), str(directory)]


def written(directory: Path, size: int) -> list[str]:
    return [(directory / str(rank)).read_text() for rank in range(size)]
