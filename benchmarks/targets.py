"""`make bench-targets`: what kungfu_tf means to reach, and whether it does, measured in one run.

python benchmarks/targets.py [--rounds 5] [--results DIR]

Prints a table of targets and figures, writes it into benchmarks/results/, and ends with code 1 if
one falls short. Where what a target is compared with is not installed (`make bench-peers`) it falls
short, too. Times are compared with times of the same run only, which holds on every machine. Where
the interval of a ratio has the bound within it the target is undecided: more rounds may tell.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import report
import systems
import verdict
from measure import Figures, in_turns, require
from systems import System
from verdict import Finding, Verdict

KIB, MIB = 1 << 10, 1 << 20
SIZES = [str(size) for size in (4, 64 * KIB, MIB, 16 * MIB, 100 * MIB)]
SHARED, ORDINARY, HOSTS = systems.SHARED, systems.ORDINARY, systems.CORE_HOSTS
ZERO_COPY, COPY_IN = "limit: memory, zero-copy", "limit: memory, copy-in"
MANY, ALONE, IN_STEP = "core, many", "each alone, TF 2.21", "each alone, in step, TF 2.21"
ASYNCHRONOUS = "each alone, asynchronous, TF 2.21"
NARROWER = systems.vectors()[:-1]  # vectors that the core would take on other processors
# At least, of what differs most from minute to minute, and from start to start.
ROUNDS, STARTS = 9, 15


def with_vectors(name: str, vectors: str) -> str:
    """The name of a system, with the vector instructions that it is told to take."""
    return f"{name}, {vectors}"


Judge = Callable[["Measured"], Finding]


class Target(NamedTuple):
    """One row: what must hold, and the worst of what was measured against it."""

    what: str
    bound: str
    judge: Judge


class Measured:
    """All figures, by kind and number of processes.

    Args:
        here: The systems that are installed, by their names.
        rounds: How often to measure.
    """

    def __init__(self, here: dict[str, System], rounds: int) -> None:
        self._here = here
        self._rounds = rounds
        self._figures: dict[tuple[str, int], Figures] = {}

    def take(
        self, kind: str, peers: int, names: list[str], keys: list[str], *, rounds: int = 0
    ) -> None:
        """Measures these in turns, `rounds` times if that is more than is asked for.

        Those that are not installed are left out.
        """
        here = [self._here[name] for name in names if name in self._here]
        rounds = max(rounds, self._rounds)
        self._figures[kind, peers] = in_turns(here, peers, kind, keys, rounds)

    @property
    def is_empty(self) -> bool:
        return not any(any(figures.values()) for figures in self._figures.values())

    def median(self, kind: str, peers: int, name: str, key: str) -> float:
        """Of the rounds, seconds or bytes.

        Raises:
            KeyError: It was not measured; the argument says what.
        """
        return statistics.median(self.rounds_of(kind, peers, name, key))

    def ratios(self, kind: str, peers: int, ours: str, theirs: str, key: str) -> list[float]:
        """How many times theirs ours is, round by round.

        The two stand side by side in a round. From one round to the next a virtual machine's cores
        may come to lie further apart, and all takes three times as long.

        Raises:
            KeyError: One was not measured; the argument says which.
        """
        rounds = (self.rounds_of(kind, peers, name, key) for name in (ours, theirs))
        return [a / b for a, b in zip(*rounds, strict=True)]

    def rounds_of(self, kind: str, peers: int, name: str, key: str) -> list[float]:
        """Seconds or bytes, one of each round.

        Raises:
            KeyError: It was not measured; the argument says what.
        """
        figures = self._figures[kind, peers].get(name, {}).get(key)
        if not figures:
            raise KeyError(f"{name} was not measured")
        return figures


def at_most(
    kind: str, peers: int, ours: str, theirs: list[str], keys: list[str], factor: float
) -> Judge:
    """Ours takes at most `factor` times what each of the others takes, for every key."""

    def judge(measured: Measured) -> Finding:
        ratios = {
            f"{report.show_key(key)} beside {other}": measured.ratios(kind, peers, ours, other, key)
            for key in keys
            for other in theirs
        }
        return verdict.at_most(ratios, factor)

    return judge


def beside(judge: Judge, other: Judge) -> Judge:
    """As `judge`; what the other one has found is told, too."""

    def both(measured: Measured) -> Finding:
        found = judge(measured)
        return found._replace(figure=f"{found.figure}; {other(measured).figure}")

    return both


def beyond(kind: str, peers: int, ours: str, plain: str, key: str) -> Judge:
    """Tells the seconds that ours takes beyond the plain one, which no machine shares."""

    def judge(measured: Measured) -> Finding:
        rounds = (measured.rounds_of(kind, peers, name, key) for name in (ours, plain))
        seconds = statistics.median(a - b for a, b in zip(*rounds, strict=True))
        return Finding(f"{report.show_seconds(seconds)} beyond {plain}", Verdict.UNDECIDED)

    return judge


def grows(kind: str, peers: tuple[int, int], ours: str, key: str, factor: float) -> Judge:
    """With more peers ours takes at most `factor` times what it takes with fewer."""

    def judge(measured: Measured) -> Finding:
        fewer, more = (measured.rounds_of(kind, count, ours, key) for count in peers)
        ratios = [b / a for a, b in zip(fewer, more, strict=True)]
        return verdict.at_most({f"beside {peers[0]} processes": ratios}, factor)

    return judge


def holds_in(kind: str, peers: int, ours: str, key: str, megabytes: int) -> Judge:
    """Ours needs no more memory than that."""

    def judge(measured: Measured) -> Finding:
        figure = measured.median(kind, peers, ours, key) / 1e6
        return Finding(f"{figure:.0f} MB", Verdict.of(figure <= megabytes))

    return judge


def takes_beside(peers: int, ours: str, plain: str, factor: float) -> Judge:
    """Of memory, beyond the plain program: at most `factor` times the gradients."""

    def judge(measured: Measured) -> Finding:
        peaks = [measured.median("memory", peers, name, "peak") for name in (ours, plain)]
        gradients = measured.median("memory", peers, ours, "gradients")
        ratio = (peaks[0] - peaks[1]) / gradients
        figure = f"{ratio:.2f} × ({peaks[0] / 1e6:.0f} and {peaks[1] / 1e6:.0f} MB)"
        return Finding(figure, Verdict.of(ratio <= factor))

    return judge


MPI = [systems.OPEN_MPI, systems.MPICH]
RESNET = ["resnet50"]
TARGETS = [
    Target(
        "core, 2 processes, 64 KiB to 100 MiB, buffers in mapped memory",
        "faster than Open MPI and MPICH at every size",
        at_most("sums", 2, SHARED, MPI, SIZES[1:], 1.0),
    ),
    Target(
        "the same, 1 MiB to 100 MiB",
        "≤ 1.5 × the zero-copy limit",
        at_most("sums", 2, SHARED, [ZERO_COPY], SIZES[2:], 1.5),
    ),
    Target(
        "core, 2 processes, 64 KiB to 100 MiB, ordinary buffers",
        "≤ 1.3 × the copy-in limit",
        at_most("sums", 2, ORDINARY, [COPY_IN], SIZES[1:], 1.3),
    ),
    *(
        Target(
            f"core, 2 processes, {words}, with {vectors}",
            f"≤ {factor} × the {limit} limit",
            at_most(
                "sums", 2, with_vectors(ours, vectors), [f"limit: memory, {limit}"], sizes, factor
            ),
        )
        for vectors in NARROWER
        for words, ours, limit, sizes, factor in (
            ("1 MiB to 100 MiB, buffers in mapped memory", SHARED, "zero-copy", SIZES[2:], 1.5),
            ("64 KiB to 100 MiB, ordinary buffers", ORDINARY, "copy-in", SIZES[1:], 1.3),
        )
    ),
    Target(
        "core, 2 processes, 4 B",
        "≤ 3 × Open MPI",
        at_most("sums", 2, ORDINARY, [systems.OPEN_MPI], ["4"], 3),
    ),
    *(
        Target(
            f"core, {peers} processes, 4 B",
            "≤ 1.5 × Open MPI",
            at_most("sums", peers, SHARED, [systems.OPEN_MPI], ["4"], 1.5),
        )
        for peers in (4, 8)
    ),
    Target(
        "core, 4 processes, 64 KiB to 100 MiB, buffers in mapped memory",
        "faster than Open MPI at every size",
        at_most("sums", 4, SHARED, [systems.OPEN_MPI], SIZES[1:], 1.0),
    ),
    Target(
        "core, 2 hosts (network namespaces)",
        "faster than gloo at every size",
        at_most("sums", 2, HOSTS, [systems.GLOO_HOSTS], SIZES, 1.0),
    ),
    Target(
        "tf.function, gradients of ResNet-50, 2 processes",
        "≤ 1/3.8 of Horovod (Open MPI)",
        at_most("gradients", 2, systems.OURS, [systems.HOROVOD_MPI], RESNET, 1 / 3.8),
    ),
    Target(
        "tf.function, gradients of ResNet-50, 4 processes",
        "≤ 1/2 of Horovod (Open MPI)",
        at_most("gradients", 4, systems.OURS, [systems.HOROVOD_MPI], RESNET, 1 / 2),
    ),
    Target(
        "tf.function, 4 B in a loop, 2 processes",
        "≤ 1.5 × an asynchronous kernel of TensorFlow's in the same loop",
        beside(
            at_most("loop", 2, systems.OURS, [ASYNCHRONOUS], ["4"], 1.5),
            beyond("loop", 2, systems.OURS, ALONE, "4"),
        ),
    ),
    Target(
        "Keras fit, 2 processes",
        "≤ 2 % slower than two plain processes that begin each step together",
        beside(
            at_most("fit", 2, systems.OURS, [IN_STEP], ["step"], 1.02),
            at_most("fit", 2, systems.OURS, [ALONE], ["step"], 1.02),
        ),
    ),
    Target(
        "Keras fit, 4 processes, TF 2.15",
        "≤ 0.9 × Horovod (Open MPI)",
        at_most("fit", 4, systems.OURS_2_15, [systems.HOROVOD_MPI], ["step"], 0.9),
    ),
    Target(
        "Keras fit, 1 process",
        "≤ 2 % slower than the plain program",
        at_most("fit", 1, systems.OURS, [ALONE], ["step"], 1.02),
    ),
    Target(
        "core, 256 processes: all connected, and a sum of 64 KiB",
        "≤ 5.4 × 64 processes (n log n)",
        grows("many", (64, 256), MANY, "ready", 5.4),
    ),
    Target(
        "core, 256 processes: memory of each",
        "≤ 40 MB",
        holds_in("many", 256, MANY, "memory", 40),
    ),
    Target(
        "Keras fit, 2 processes: peak memory beyond the plain program's",
        "≤ 1.1 × the gradients",
        takes_beside(2, systems.OURS, ALONE, 1.1),
    ),
]


def of_vectors(system: System, vectors: str) -> System:
    """One of the core, with the loops of these vector instructions."""
    environ = {**system.environ, "KUNGFU_SIMD": vectors}
    return dataclasses.replace(system, name=with_vectors(system.name, vectors), environ=environ)


def judged(targets: Sequence[Target], measured: Measured) -> Iterator[tuple[Target, Finding]]:
    """What was not measured falls short."""
    for target in targets:
        try:
            yield target, target.judge(measured)
        except KeyError as error:
            yield target, Finding(str(error.args[0]), Verdict.FALLS_SHORT)


def main() -> None:
    options = report.parser(__doc__, rounds=5).parse_args()
    here = systems.installed()
    require(here.values())
    cores = [here[name] for name in (SHARED, ORDINARY) if name in here]
    narrower = [of_vectors(*one) for one in itertools.product(cores, NARROWER)]
    here |= {system.name: system for system in narrower}
    measured = Measured(here, options.rounds)
    beside_limits = [SHARED, ZERO_COPY, ORDINARY, COPY_IN, *(system.name for system in narrower)]
    core = [*MPI, *beside_limits, HOSTS, systems.GLOO_HOSTS]
    measured.take("sums", 2, core, SIZES, rounds=ROUNDS)
    measured.take("sums", 4, [SHARED, systems.OPEN_MPI], SIZES, rounds=ROUNDS)
    measured.take("sums", 8, [SHARED, systems.OPEN_MPI], SIZES[:1], rounds=ROUNDS)
    in_tensorflow = [systems.OURS, systems.HOROVOD_MPI]
    measured.take("gradients", 2, in_tensorflow, RESNET)
    measured.take("gradients", 4, in_tensorflow, RESNET)
    measured.take("loop", 2, [systems.OURS, ASYNCHRONOUS, ALONE], ["4"], rounds=ROUNDS)
    fits = [systems.OURS, ALONE]
    measured.take("fit", 2, [*fits, IN_STEP], ["6"], rounds=STARTS)
    measured.take("fit", 4, [systems.OURS_2_15, systems.HOROVOD_MPI], ["4"])
    measured.take("fit", 1, fits, ["6"], rounds=STARTS)
    for processes in (64, 256):
        measured.take("many", processes, [MANY], [])
    measured.take("memory", 2, fits, ["10"])
    rows = [] if measured.is_empty else list(judged(TARGETS, measured))
    lines = ["| | target | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {target.what} | {target.bound} | {found.figure} | {found.verdict.value} |"
        for target, found in rows
    ]
    report.write(options.results / "targets", "Targets", lines)
    sys.exit(1 if any(found.verdict is Verdict.FALLS_SHORT for _, found in rows) else 0)


if __name__ == "__main__":
    main()
