"""What `kungfu-run -on-failure survive` costs while nobody is lost, beside a job without it.

Writes `results/surviving.md`. Ends with code 1 where it falls short.

    python benchmarks/surviving.py [--rounds 7] [--results DIR]
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable

import report
import systems
from systems import System
from targets import STARTS, Judge, Measured, Target, at_most, judged, takes_beside
from verdict import Verdict

Start = Callable[[int], list[str]]
SURVIVES, OFF, ALONE = "survive", "without", "each alone, TF 2.21"
OVER_TCP = {"KUNGFU_TRANSPORT": "tcp"}
PEERS = 2
# What survives keeps its operands until the sum is agreed: it sums elsewhere, or saves them first.
IN_PLACE, ELSEWHERE, KEPT = map(systems.limit_of_memory, ("zero-copy", "elsewhere", "kept"))
GRADIENTS = str(100_000 << 10)  # of ResNet-50, in bytes
SMALL = [f"{name}{way}" for way in (", TCP", ", two hosts") for name in (OFF, SURVIVES)]


def surviving(start: Start) -> Start:
    return lambda peers: [*start(peers), "-on-failure", "survive"]


def here() -> dict[str, System]:
    """kungfu_tf with TensorFlow 2.21: with the option, without it, and a program without either."""
    installed = systems.installed()
    ours = installed[systems.OURS]
    ways = {"": ours, ", TCP": dataclasses.replace(ours, environ=OVER_TCP)}
    if systems.may_have_hosts():
        ways[", two hosts"] = dataclasses.replace(ours, start=systems.by_two_hosts)
    found = [installed[ALONE]]
    for way, system in ways.items():
        found += [
            dataclasses.replace(system, name=f"{OFF}{way}"),
            dataclasses.replace(system, name=f"{SURVIVES}{way}", start=surviving(system.start)),
        ]
    return {system.name: system for system in (*found, IN_PLACE, ELSEWHERE, KEPT)}


def beside(kind: str, key: str, factor: float, way: str = "") -> Judge:
    return at_most(kind, PEERS, SURVIVES + way, [OFF + way], [key], factor)


TARGETS = [
    Target("step of `fit`, small CNN", "≤ 1.02 ×", beside("fit", "step", 1.02)),
    Target(
        "averages of ResNet-50's gradients, 97.5 MiB",
        "≤ 1.15 ×",
        beside("gradients", "resnet50", 1.15),
    ),
    Target(
        "average of 4 B over TCP, a round trip: at most one more",
        "≤ 2 ×",
        beside("loop", "4", 2, ", TCP"),
    ),
    Target(
        "the same between two hosts (network namespaces)",
        "≤ 2 ×",
        beside("loop", "4", 2, ", two hosts"),
    ),
    Target(
        "`fit`: peak memory beyond the plain program's, beside the gradients",
        "≤ 2.1 ×",
        takes_beside(PEERS, SURVIVES, ALONE, 2.1),
    ),
]


def measure(rounds: int) -> Measured:
    measured = Measured(here(), rounds)
    measured.take("fit", PEERS, [OFF, SURVIVES], ["9"], rounds=STARTS)
    measured.take("gradients", PEERS, [OFF, SURVIVES], ["resnet50"])
    measured.take("loop", PEERS, SMALL, ["4"])
    loops = [system.name for system in (IN_PLACE, ELSEWHERE, KEPT)]
    measured.take("sums", PEERS, loops, [GRADIENTS])
    measured.take("memory", PEERS, [SURVIVES, ALONE], ["10"])
    return measured


def bare_loops(measured: Measured) -> str:
    """How much of the cost of large sums is the memory's, whoever keeps the operands."""
    ratios = [
        statistics.median(measured.ratios("sums", PEERS, loop.name, IN_PLACE.name, GRADIENTS))
        for loop in (ELSEWHERE, KEPT)
    ]
    return (
        f"Bare loops over as much memory as ResNet-50's gradients, beside sums in place: "
        f"{ratios[0]:.2f} × with the results elsewhere, {ratios[1]:.2f} × where the operands are "
        "saved first. A peer that is to survive must do one of the two."
    )


def main() -> int:
    options = report.parser(__doc__ or "", rounds=7).parse_args()
    measured = measure(options.rounds)
    found = list(judged(TARGETS, measured))
    body = [
        f"{PEERS} peers, on one host if nothing else is said, in turns: the median of "
        f"{options.rounds} rounds' ratios ({max(STARTS, options.rounds)} of `fit`), and the "
        "interval in which it lies with 95 %.",
        "",
        "| | target | measured | |",
        "|---|---|---|---|",
        *(
            f"| {target.what} | {target.bound} | {finding.figure} | {finding.verdict.value} |"
            for target, finding in found
        ),
        "",
        bare_loops(measured),
    ]
    report.write(options.results / "surviving", "What it costs to survive", body)
    return int(any(finding.verdict is Verdict.FALLS_SHORT for _, finding in found))


if __name__ == "__main__":
    sys.exit(main())
