"""The slowest jobs of all parts of the tests, out of what pytest and ctest have printed.

python -m tests.slowest build/test-*.log
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SHOWN = 20
_PYTEST = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(\S.*)$", re.MULTILINE)
_CTEST = re.compile(r"Test +#\d+: (\w+) .*?([0-9.]+) sec$", re.MULTILINE)


class Job(NamedTuple):
    """What took so many seconds, in which part."""

    seconds: float
    part: str
    name: str


def jobs(part: str, log: str) -> list[Job]:
    """Those that a part's log has the times of."""
    of_python = [Job(float(seconds), part, name) for seconds, name in _PYTEST.findall(log)]
    return of_python + [Job(float(seconds), part, name) for name, seconds in _CTEST.findall(log)]


def table(logs: Iterable[Path]) -> str:
    """A line for each of the slowest."""
    found = [job for log in logs for job in jobs(log.stem, log.read_text(errors="replace"))]
    slowest = sorted(found, reverse=True)[:SHOWN]
    lines = [f"{job.seconds:7.1f} s  {job.part:18} {job.name}" for job in slowest]
    return "\n".join([f"The slowest {len(slowest)} jobs:", *lines])


if __name__ == "__main__":
    print(table(map(Path, sys.argv[1:])))
