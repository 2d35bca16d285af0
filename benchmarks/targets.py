"""`make bench-targets`: what kungfu_tf means to reach, and whether it does, measured in one run.

python benchmarks/targets.py [--rounds 5]

Prints a table of targets and figures, writes it into benchmarks/results/, and ends with code 1 if
one falls short. Where what a target is compared with is not installed (`make bench-peers`) it falls
short, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import report
import systems
from measure import Figures, in_turns, median

KIB, MIB = 1 << 10, 1 << 20
SIZES = [str(size) for size in (4, 64 * KIB, MIB, 16 * MIB, 100 * MIB)]
SHARED, ORDINARY, HOSTS = "core, shared memory", "core, ordinary memory", "core, two hosts"
ZERO_COPY, COPY_IN = "limit: memory, zero-copy", "limit: memory, copy-in"


class Target(NamedTuple):
    """One row: what must hold, and the worst of what was measured against it."""

    what: str
    bound: str
    judge: Callable[[Measured], tuple[str, bool]]


class Measured:
    """All figures, by kind and number of processes."""

    def __init__(self, rounds: int) -> None:
        self._here = systems.installed()
        self._rounds = rounds
        self._figures: dict[tuple[str, int], Figures] = {}

    def take(self, kind: str, peers: int, names: list[str], keys: list[str]) -> None:
        """Measures these in turns; those that are not installed are left out."""
        here = [self._here[name] for name in names if name in self._here]
        self._figures[kind, peers] = in_turns(here, peers, kind, keys, self._rounds)

    def seconds(self, kind: str, peers: int, name: str, key: str) -> float:
        """The median.

        Raises:
            KeyError: It was not measured; the argument says what.
        """
        try:
            return median(self._figures[kind, peers], name, key)
        except KeyError:
            raise KeyError(f"{name} was not measured") from None


def at_most(
    kind: str, peers: int, ours: str, theirs: list[str], keys: list[str], factor: float
) -> Callable[[Measured], tuple[str, bool]]:
    """Ours takes at most `factor` times what each of the others takes, for every key."""

    def judge(measured: Measured) -> tuple[str, bool]:
        ratios = {
            f"{report.show_key(key)} beside {other}": measured.seconds(kind, peers, ours, key)
            / measured.seconds(kind, peers, other, key)
            for key in keys
            for other in theirs
        }
        worst = max(ratios, key=lambda name: ratios[name])
        return f"{ratios[worst]:.2f} × ({worst})", ratios[worst] <= factor

    return judge


def within(
    kind: str, peers: int, ours: str, key: str, seconds: float
) -> Callable[[Measured], tuple[str, bool]]:
    """Ours takes no longer than that."""

    def judge(measured: Measured) -> tuple[str, bool]:
        figure = measured.seconds(kind, peers, ours, key)
        return report.show_seconds(figure), figure <= seconds

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
    Target("core, 2 processes, 4 B", "≤ 3 µs", within("sums", 2, ORDINARY, "4", 3e-6)),
    Target(
        "core, 4 processes, 64 KiB to 100 MiB",
        "faster than Open MPI at every size",
        at_most("sums", 4, SHARED, [systems.OPEN_MPI], SIZES[1:], 1.0),
    ),
    Target(
        "core, 2 hosts (network namespaces)",
        "faster than gloo at every size",
        at_most("sums", 2, HOSTS, [f"{systems.GLOO}, two hosts"], SIZES, 1.0),
    ),
    Target(
        "tf.function, gradients of ResNet-50, 2 processes",
        "≤ 1/3.8 of Horovod (Open MPI)",
        at_most("gradients", 2, systems.OURS, [systems.HOROVOD_MPI], RESNET, 1 / 3.8),
    ),
    Target(
        "tf.function, gradients of ResNet-50, 2 processes",
        "≤ 20 ms",
        within("gradients", 2, systems.OURS, "resnet50", 20e-3),
    ),
    Target(
        "tf.function, gradients of ResNet-50, 4 processes",
        "≤ 1/2 of Horovod (Open MPI)",
        at_most("gradients", 4, systems.OURS, [systems.HOROVOD_MPI], RESNET, 1 / 2),
    ),
    Target(
        "tf.function, 4 B in a loop, 2 processes",
        "≤ 60 µs",
        within("loop", 2, systems.OURS, "4", 60e-6),
    ),
    Target(
        "Keras fit, 2 processes",
        "≥ 95 % of two plain processes at the same time",
        at_most("fit", 2, systems.OURS, ["each alone, TF 2.21"], ["step"], 1 / 0.95),
    ),
    Target(
        "Keras fit, 1 process",
        "≤ 2 % slower than the plain program",
        at_most("fit", 1, systems.OURS, ["each alone, TF 2.21"], ["step"], 1.02),
    ),
]


def judged(measured: Measured) -> Iterator[tuple[Target, str, bool]]:
    for target in TARGETS:
        try:
            figure, holds = target.judge(measured)
        except KeyError as error:
            figure, holds = str(error.args[0]), False
        yield target, figure, holds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    measured = Measured(parser.parse_args().rounds)
    core = [SHARED, ORDINARY, HOSTS, ZERO_COPY, COPY_IN, *MPI, f"{systems.GLOO}, two hosts"]
    measured.take("sums", 2, core, SIZES)
    measured.take("sums", 4, [SHARED, systems.OPEN_MPI], SIZES)
    in_tensorflow = [systems.OURS, systems.HOROVOD_MPI]
    measured.take("gradients", 2, in_tensorflow, RESNET)
    measured.take("gradients", 4, in_tensorflow, RESNET)
    measured.take("loop", 2, [systems.OURS], ["4"])
    fits = [systems.OURS, "each alone, TF 2.21"]
    measured.take("fit", 2, fits, ["9"])
    measured.take("fit", 1, fits, ["9"])
    rows = list(judged(measured))
    lines = [
        "# Targets",
        "",
        report.provenance(),
        "",
        "| | target | measured | |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {target.what} | {target.bound} | {figure} | {'reached' if holds else 'falls short'} |"
        for target, figure, holds in rows
    ]
    report.write("targets", lines)
    sys.exit(0 if all(holds for _, _, holds in rows) else 1)


if __name__ == "__main__":
    main()
