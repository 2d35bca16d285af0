"""What an all-reduce of a group takes, beside one of all peers of a job of the group's size.

Writes `results/groups.md`. Ends with code 1 where a group is slower.

    python benchmarks/groups.py [--rounds 9] [--results DIR]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import report
import verdict
from measure import reported
from systems import CORES
from verdict import Verdict

PROGRAM = Path(__file__).parent / "programs" / "groups.py"
SIZES = (4, 64 << 10, 1 << 20, 16 << 20)
SECONDS = 300
FACTOR = 1.05
ALL, OF_TWO, OF_FOUR = "all peers of a job of two", "a group of both", "a group of two of four"
HAS_CORES = CORES >= 4
JUDGED = (OF_TWO, OF_FOUR) if HAS_CORES else (OF_TWO,)
SHARED = (
    f"Four peers share {CORES} cores, and so do not wait actively: their group has no target here."
)

Figures = dict[int, dict[str, list[float]]]  # seconds by bytes and kind, one of each round


def measured(rounds: int) -> Figures:
    os.environ["KUNGFU_BIND_TO"] = "none"  # two peers of four have as many cores as two of two
    figures: Figures = defaultdict(lambda: defaultdict(list))
    for turn in range(rounds):
        for peers in (2, 4) if turn % 2 == 0 else (4, 2):
            options = ["-np", str(peers), "-q"]
            for line in reported(PROGRAM, *SIZES, options=options, seconds=SECONDS):
                taken = json.loads(line)
                by_kind = figures[taken.pop("bytes")]
                for kind, seconds in taken.items():
                    grouped = OF_TWO if peers == 2 else OF_FOUR
                    by_kind[ALL if kind == "all" else grouped].append(seconds)
    return figures


def ratios(figures: Figures, kind: str) -> dict[str, list[float]]:
    """By size, how many times that of all peers a group takes, round by round."""
    return {
        report.show_key(str(size)): [
            a / b for a, b in zip(by_kind[kind], by_kind[ALL], strict=True)
        ]
        for size, by_kind in figures.items()
    }


def table(figures: Figures) -> list[str]:
    """Markdown."""
    sizes = " | ".join(report.show_key(str(size)) for size in figures)
    rows = []
    for kind in (ALL, OF_TWO, OF_FOUR):
        medians = (statistics.median(by_kind[kind]) for by_kind in figures.values())
        rows.append(f"| {kind} | {' | '.join(map(report.show_seconds, medians))} |")
    for kind in (OF_TWO, OF_FOUR):
        cells = []
        for of_size in ratios(figures, kind).values():
            least, most = verdict.interval(of_size)
            cells.append(f"{statistics.median(of_size):.2f} × ({least:.2f} to {most:.2f})")
        rows.append(f"| {kind}, times all | {' | '.join(cells)} |")
    return [
        "Averages of float32 elements in a loop of a `tf.function`, on one host. The target: a "
        f"group takes at most {FACTOR} times as long as a job of its size. Medians of the rounds, "
        "and the interval in which the median of the ratios lies with 95 %."
        + ("" if HAS_CORES else f" {SHARED}"),
        "",
        f"| | {sizes} |",
        "|---" * (1 + len(figures)) + "|",
        *rows,
    ]


def main() -> int:
    options = report.parser(__doc__, rounds=9).parse_args()
    figures = measured(options.rounds)
    report.write(options.results / "groups", "All-reduce of a group", table(figures))
    findings = [verdict.at_most(ratios(figures, kind), FACTOR) for kind in JUDGED]
    for found in findings:
        print(f"{found.figure}: {found.verdict.value}")
    return int(any(found.verdict is Verdict.FALLS_SHORT for found in findings))


if __name__ == "__main__":
    sys.exit(main())
