"""What it costs to change the number of peers while `fit` trains: 1, 4, 2, 3 and 1 peers.

Writes `results/elastic.md` and `results/elastic.png`.

    python benchmarks/elastic.py [--rounds 20] [--results DIR]
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import report
from matplotlib.figure import Figure
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "elastic.py"
TARGET = 0.1  # seconds beyond the transfer of the state
SECONDS_PER_ROUND = 180


def measured(rounds: int) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """What all trainings have had, and each change."""
    options = ["-w", "-np", "1", "-H", "127.0.0.1:4"]
    lines = reported(PROGRAM, rounds, options=options, seconds=SECONDS_PER_ROUND * rounds)
    first, *changes = map(json.loads, lines)
    return first, changes


def table(first: dict[str, Any], changes: list[dict[str, float]]) -> list[str]:
    """Markdown."""
    rows = []
    for kind in dict.fromkeys((c["from"], c["to"]) for c in changes):
        own = [c for c in changes if (c["from"], c["to"]) == kind]
        beyond = [c["pause"] - c["transfer"] for c in own]
        transfer = statistics.median(c["transfer"] for c in own)
        rows.append(
            f"| {kind[0]} → {kind[1]} | {len(own)} | {1e3 * transfer:.0f} | "
            f"{1e3 * statistics.median(beyond):.0f} | {1e3 * max(beyond):.0f} |"
        )
    beyond = [c["pause"] - c["transfer"] for c in changes]
    within = sum(one <= TARGET for one in beyond)
    return [
        f"{len(changes)} changes in one training on {os.cpu_count()} cores; "
        f"{first['bytes'] / 1e6:.0f} MB of model and optimizer. All weights and optimizers "
        "were bitwise equal after each change, and each sample was trained on once in each of "
        f"{first['epochs']} whole epochs: otherwise there would be no table.",
        "",
        "| peers | changes | transfer, ms | pause beyond it, median, ms | at most, ms |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "The pause is what those who stay lose between two steps. Target: "
        f"{1e3 * TARGET:.0f} ms beyond the transfer; {within} of {len(changes)} changes were "
        f"within it (median {1e3 * statistics.median(beyond):.0f} ms). Four peers share the "
        "cores, with whatever else the machine does.",
    ]


def plot(changes: list[dict[str, float]]) -> Figure:
    """The pauses, one after the other, by what they were for."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    numbers = range(1, len(changes) + 1)
    transfers = [1e3 * c["transfer"] for c in changes]
    beyond = [1e3 * (c["pause"] - c["transfer"]) for c in changes]
    axes.bar(numbers, transfers, label="transfer of the state")
    axes.bar(numbers, beyond, bottom=transfers, label="beyond it")
    axes.axhline(1e3 * TARGET, color="gray", linestyle=":", label="target, beyond")
    axes.set_xlabel("change: 1 → 4 → 2 → 3 → 1, and again")
    axes.set_ylabel("pause of those who stay, ms")
    axes.legend()
    return figure


def main() -> None:
    options = report.parser(__doc__, rounds=20).parse_args()
    first, changes = measured(options.rounds)
    title = "Changing the number of peers while `fit` trains"
    report.write(options.results / "elastic", title, table(first, changes), plot(changes))


if __name__ == "__main__":
    main()
