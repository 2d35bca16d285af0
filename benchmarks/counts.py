"""`make bench-counts`: the instructions, allocations and system calls of one sum in the core.

python benchmarks/counts.py [--beside DIR] [--results DIR]

Figures of time differ from machine to machine and from hour to hour; these hardly do. Callgrind and
strace count, in one of two peers, while the other one runs as fast as it can.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import report
from measure import environment
from systems import BINARIES

PROGRAM = BINARIES / "benchmark_counts"
SIZES = {4: 400, 64 << 10: 200, 1 << 20: 40}  # bytes, and how often they are summed
# What the peers' data lie in, and what they speak over.
WAYS = {
    "shared memory": ("shared", "shm"),
    "ordinary memory, rings": ("ordinary", "shm"),
    "Unix sockets": ("ordinary", "unix"),
    "TCP": ("ordinary", "tcp"),
}
SECONDS = 120


class Counts(NamedTuple):
    """Of one sum, in one process."""

    instructions: float
    allocations: float
    system_calls: float


class Run(NamedTuple):
    """A program that sums, with the core of a folder; None: the one that is built here."""

    way: str
    size: int
    library: Path | None

    def under(self, repetitions: int, *tool: str, before: Sequence[str] = ()) -> dict[str, float]:
        """What rank 0 reports while a tool counts what it does; `before`: of all processes."""
        memory, transport = WAYS[self.way]
        launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", "2"]
        with tempfile.TemporaryDirectory() as scratch:
            told = Path(scratch) / "report"
            sums = [str(PROGRAM), str(told), str(repetitions), str(self.size), memory]
            command = [*before, *launcher, *sums, *tool]
            # The peer looks on however long the tool takes.
            environ = {**environment(1), "KUNGFU_TRANSPORT": transport, "KUNGFU_SPIN": "1000000"}
            if self.library is not None:
                environ["LD_LIBRARY_PATH"] = str(self.library)
            subprocess.run(command, env=environ, check=True, timeout=SECONDS)
            lines = [line.split() for line in told.read_text().splitlines()]
        return {key: float(value) for key, value in lines}


def instructions(run: Run) -> float:
    repetitions = SIZES[run.size]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "callgrind"
        options = ["--tool=callgrind", "-q", "--toggle-collect=Repeat"]
        tool = ["valgrind", *options, f"--callgrind-out-file={out}"]
        run.under(repetitions, *tool, before=_before_others())
        (total,) = re.findall(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)[:1]
    return int(total) / repetitions


def _before_others() -> list[str]:
    """For root: a peer that waits while somebody else computes would look out more often."""
    may = os.geteuid() == 0 and shutil.which("chrt") is not None
    return ["chrt", "--rr", "5"] if may else []


def system_calls(run: Run) -> float:
    """The difference that more sums make."""
    few, many = (_all_system_calls(run, SIZES[run.size] * times) for times in (1, 11))
    return (many - few) / (10 * SIZES[run.size])


def _all_system_calls(run: Run, repetitions: int) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "strace"
        run.under(repetitions, "strace", "-f", "-c", "-o", str(out))
        rows = [line.split() for line in out.read_text().splitlines()]
    return sum(int(row[3]) for row in rows if row[3:4] and row[3].isdigit() and row[-1] != "total")


def counted(run: Run) -> Counts:
    print(f"{run.way}, {report.show_key(str(run.size))}", file=sys.stderr)
    allocations = run.under(SIZES[run.size])["allocations"]
    return Counts(instructions(run), allocations, system_calls(run))


def table(libraries: Sequence[Path | None]) -> Iterator[str]:
    """Markdown: beside each figure, the one before."""
    yield "| | | instructions | allocations | system calls |"
    yield "|---|---|---|---|---|"
    for way in WAYS:
        for size in SIZES:
            found = [counted(Run(way, size, library)) for library in libraries]
            cells = (" → ".join(map(_shown, figures)) for figures in zip(*found, strict=True))
            yield f"| {way} | {report.show_key(str(size))} | {' | '.join(cells)} |"


def _shown(figure: float) -> str:
    """None is less than nothing: starts differ in a few calls."""
    return f"{figure:,.0f}" if figure >= 100 else f"{max(figure, 0):.1f}".removesuffix(".0")


def main() -> None:
    options = report.parser(__doc__)
    text = "a folder with another libkungfu.so.1, whose figures stand before the arrows"
    options.add_argument("--beside", type=Path, metavar="DIR", help=text)
    arguments = options.parse_args()
    missing = [tool for tool in ("valgrind", "strace") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)}: not on the PATH; Debian has packages of these names")
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is not there: `make bench-programs` builds it")
    libraries = [*([arguments.beside.resolve()] if arguments.beside else []), None]
    body = [
        "What one sum of float32 in place costs a process, of two on one host: instructions by",
        "callgrind, in the thread that waits for it; calls of malloc; system calls by strace. What",
        "the processor does in the kernel is not among them.",
        "",
        *table(libraries),
    ]
    report.write(arguments.results / "counts.md", "Counts", body)


if __name__ == "__main__":
    main()
