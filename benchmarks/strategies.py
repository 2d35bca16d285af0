"""A training whose strategy changes every ten steps: whether the weights are those of one without.

Writes `results/strategies.md` and `results/strategies.png`.

    python benchmarks/strategies.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import report
from matplotlib.figure import Figure
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "strategies.py"
PEERS, SECONDS = 4, 300
Steps = list[dict[str, Any]]


def measured(rounds: int) -> Steps:
    lines = reported(PROGRAM, rounds, options=["-np", str(PEERS)], seconds=SECONDS)
    return [json.loads(line) for line in lines]


def table(steps: Steps) -> list[str]:
    """Markdown."""
    rows = []
    for strategy in dict.fromkeys(step["strategy"] for step in steps):
        own = [step for step in steps if step["strategy"] == strategy]
        median = report.show_seconds(statistics.median(step["seconds"] for step in own))
        equal, as_without = (sum(step[key] for step in own) for key in ("equal", "as_without"))
        rows.append(f"| {strategy} | {len(own)} | {median} | {equal} | {as_without} |")
    return [
        f"{PEERS} peers on one host, 4 MiB of weights, gradients that are whole numbers. A step "
        "computes and averages gradients, and applies them; its time is the median.",
        "",
        "| strategy | steps | a step | weights equal on all peers | bits as without changes |",
        "|---|---|---|---|---|",
        *rows,
    ]


def plot(steps: Steps) -> Figure:
    """The time of each step, coloured by its strategy."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots()
    for strategy in dict.fromkeys(step["strategy"] for step in steps):
        own = [i for i, step in enumerate(steps) if step["strategy"] == strategy]
        axes.plot(own, [1e3 * steps[i]["seconds"] for i in own], ".", label=strategy)
    axes.set(xlabel="step", ylabel="milliseconds", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=3)
    return figure


def main() -> None:
    options = report.parser(__doc__, rounds=3).parse_args()
    steps = measured(options.rounds)
    title = "Another strategy every ten steps"
    report.write(options.results / "strategies", title, table(steps), plot(steps))
    sys.exit(0 if all(step["equal"] and step["as_without"] for step in steps) else 1)


if __name__ == "__main__":
    main()
