"""`make bench-counts`: what one sum in the core, and a step of `fit`, make a process do.

python benchmarks/counts.py [--beside DIR] [--results DIR]

Figures of time differ from machine to machine and from hour to hour; these hardly do. They are of
one of two peers, while the other one runs as fast as it can. DIR is another checkout, built.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import report
from measure import environment
from systems import BINARIES, PROGRAMS, ROOT

PROGRAM = BINARIES / "benchmark_counts"
COUNTING = BINARIES / "libbenchmark_counting.so"
SIZES = {4: 400, 64 << 10: 200, 1 << 20: 40}  # bytes, and how often they are summed
# What the peers' data lie in, and what they speak over.
WAYS = {
    "shared memory": ("shared", "shm"),
    "ordinary memory, rings": ("ordinary", "shm"),
    "Unix sockets": ("ordinary", "unix"),
    "TCP": ("ordinary", "tcp"),
}
FITS = {"each alone": "alone", "kungfu_tf": "kungfu_tf"}  # adapters
EPOCHS, STEPS = 2, 60  # of programs/fit.py
SECONDS = 300
STARTS = 5  # in some a peer sleeps
# What the processes count themselves, and its words in the head of a table.
OWN = {
    "allocations": "allocations",
    "context_switches": "context switches",
    "clock_reads": "clock reads",
    "copied": "bytes copied",
    "sent": "bytes sent",
}
HEAD = " | ".join(["system calls", *OWN.values()])


class Program(NamedTuple):
    """One of two processes, with the core and the package of a checkout.

    Attributes:
        name: For the terminal.
        words: That start it; a file, a number of repetitions and `rest` follow.
        repetitions: Enough to count.
        environ: Beside that of this process.
        tree: The checkout.
        rest: Words.
        steps: In a repetition.
    """

    name: str
    words: list[str]
    repetitions: int
    environ: dict[str, str]
    tree: Path
    rest: Sequence[str] = ()
    steps: int = 1

    def under(
        self, *tool: str, before: Sequence[str] = (), times: int = 1, counts: bool = False
    ) -> dict[str, float]:
        """What rank 0 reports, which a tool looks at.

        Args:
            tool: The words of its command.
            before: The same of what all processes run under.
            times: How many times as often it repeats.
            counts: Whether it counts itself.
        """
        launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", "2"]
        with tempfile.TemporaryDirectory() as scratch:
            told = Path(scratch) / "report"
            numbers = [str(told), str(times * self.repetitions), *self.rest]
            command = [*before, *launcher, *self.words, *numbers, *tool]
            environ = {**environment(1, self.tree), **self.environ}
            if counts:
                environ["LD_PRELOAD"] = str(COUNTING)
            subprocess.run(command, cwd=self.tree, env=environ, check=True, timeout=SECONDS)
            lines = [line.split() for line in told.read_text().splitlines()]
        return {key: float(value) for key, value in lines}


def of_core(way: str, size: int, tree: Path) -> Program:
    """Sums of so many bytes."""
    memory, transport = WAYS[way]
    environ = {
        "KUNGFU_TRANSPORT": transport,
        "KUNGFU_SPIN": "1000000",  # the peer looks on however long the tool takes
        "LD_LIBRARY_PATH": str(tree / "kungfu_tf" / "lib"),
    }
    name = f"{way}, {report.show_key(str(size))}"
    return Program(name, [str(PROGRAM)], SIZES[size], environ, tree, [str(size), memory])


def of_fit(adapter: str, tree: Path) -> Program:
    words = [sys.executable, str(PROGRAMS / "counts_fit.py"), adapter]
    return Program(f"fit, {adapter}", words, EPOCHS, {}, tree, steps=STEPS)


def instructions(program: Program) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "callgrind"
        options = ["--tool=callgrind", "-q", "--toggle-collect=Repeat"]
        program.under("valgrind", *options, f"--callgrind-out-file={out}", before=_before_others())
        (total,) = re.findall(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)[:1]
    return int(total) / program.repetitions


def _before_others() -> list[str]:
    """For root: a peer that waits while somebody else computes would look out more often."""
    may = os.geteuid() == 0 and shutil.which("chrt") is not None
    return ["chrt", "--rr", "5"] if may else []


def system_calls(program: Program) -> float:
    """The difference that more repetitions make."""
    few, many = (_all_system_calls(program, times) for times in (1, 11))
    return (many - few) / (10 * program.repetitions * program.steps)


def _all_system_calls(program: Program, times: int) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "strace"
        program.under("strace", "-f", "-c", "-o", str(out), times=times)
        rows = [line.split() for line in out.read_text().splitlines()]
    return sum(int(row[3]) for row in rows if row[3:4] and row[3].isdigit() and row[-1] != "total")


def counted(program: Program, *others: float) -> list[float]:
    """Other counts, system calls, and what the program counts itself."""
    print(program.name, file=sys.stderr)
    own = [program.under(counts=True) for _ in range(STARTS)]
    medians = (statistics.median(start.get(key, 0) for start in own) for key in OWN)
    return [*others, system_calls(program), *medians]


def core_table(trees: Sequence[Path]) -> Iterator[str]:
    """Markdown: beside each figure, the one before."""
    yield f"| | | instructions | {HEAD} |"
    yield "|---" * (4 + len(OWN)) + "|"
    for way in WAYS:
        for size in SIZES:
            programs = [of_core(way, size, tree) for tree in trees]
            found = [counted(program, instructions(program)) for program in programs]
            yield f"| {way} | {report.show_key(str(size))} | {_cells(found)} |"


def fit_table(trees: Sequence[Path]) -> Iterator[str]:
    yield f"| | {HEAD} |"
    yield "|---" * (2 + len(OWN)) + "|"
    for name, adapter in FITS.items():
        found = [counted(of_fit(adapter, tree)) for tree in trees]
        yield f"| {name} | {_cells(found)} |"


def _cells(found: Sequence[Sequence[float]]) -> str:
    return " | ".join(" → ".join(map(_shown, figures)) for figures in zip(*found, strict=True))


def _shown(figure: float) -> str:
    """None is less than nothing: starts differ in a few calls."""
    return f"{figure:,.0f}" if figure >= 100 else f"{max(figure, 0):.1f}".removesuffix(".0")


def main() -> None:
    options = report.parser(__doc__)
    text = "another checkout, built, whose figures stand before the arrows"
    options.add_argument("--beside", type=Path, metavar="DIR", help=text)
    arguments = options.parse_args()
    missing = [tool for tool in ("valgrind", "strace") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)}: not on the PATH; Debian has packages of these names")
    for needed in (PROGRAM, COUNTING):
        if not needed.exists():
            sys.exit(f"{needed} is not there: `make bench-programs` builds it")
    trees = [*([arguments.beside.resolve()] if arguments.beside else []), ROOT]
    body = [
        "What one sum of float32 in place costs a process, of two on one host: instructions by",
        "callgrind, in the thread that waits for it; system calls by strace, of all threads. What",
        "the processor does in the kernel is not among them. Copies are those by memcpy. What the",
        f"processes count themselves is the median of {STARTS} starts: in some a peer sleeps, and",
        "each time it switches, allocates, and reads the clock.",
        "",
        *core_table(trees),
        "",
        "A step of `fit` of a small CNN, of two processes, with all that TensorFlow does:",
        "",
        *fit_table(trees),
    ]
    report.write(arguments.results / "counts", "Counts", body)


if __name__ == "__main__":
    main()
