"""A step of ShardedOptimizer and its slots, beside SynchronousSGDOptimizer.

Writes `results/sharded.md`. Ends with code 1 where a step takes more than 1.1 times as long, or a
peer has more slots than its part and those of the largest variable.

    python benchmarks/sharded.py [--rounds 7] [--results DIR]
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "sharded.py"
PEERS, SECONDS, MOST = (2, 4), 400, 1.1
MIB = 1 << 20
Line = dict[str, Any]


def measured(peers: int, rounds: int) -> list[Line]:
    """A line of each optimizer."""
    options = ["-np", str(peers), "-q"]
    return [
        json.loads(line) for line in reported(PROGRAM, rounds, options=options, seconds=SECONDS)
    ]


def ratio(line: Line) -> float:
    """How long a step takes beside the other one of its round: the median."""
    pairs = zip(line["sharded"], line["plain"], strict=True)
    return statistics.median(sharded / plain for sharded, plain in pairs)


def is_reached(line: Line) -> bool:
    return ratio(line) <= MOST and line["most_slots"] <= line["bound"]


def rows(peers: int, lines: list[Line]) -> list[str]:
    """Markdown."""
    return [
        f"| {line['optimizer']}, {peers} peers | {report.show(line['plain'])} | "
        f"{report.show(line['sharded'])} | {ratio(line):.2f} | {line['all_slots'] / MIB:.1f} | "
        f"{line['most_slots'] / MIB:.1f} | {line['bound'] / MIB:.1f} |"
        for line in lines
    ]


def main() -> int:
    options = report.parser(__doc__ or "", rounds=7).parse_args()
    results = {peers: measured(peers, options.rounds) for peers in PEERS}
    body = [
        "A step of a network of dense layers, 12 MiB of weights, with 32 samples, in a "
        "`tf.function`. The optimizers take turns; the ratio is the median of those of the rounds, "
        f"and should be at most {MOST}. Slots are in MiB: of the plain optimizer, of the peer that "
        "has most, and what that may be, its part and those of the largest variable.",
        "",
        "| | S-SGD | sharded | ratio | slots | of a peer | at most |",
        "|---|---|---|---|---|---|---|",
        *(row for peers, lines in results.items() for row in rows(peers, lines)),
    ]
    report.write(options.results / "sharded", "ShardedOptimizer beside S-SGD", body)
    return int(not all(is_reached(line) for lines in results.values() for line in lines))


if __name__ == "__main__":
    sys.exit(main())
