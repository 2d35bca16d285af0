"""What the others lose when one of four peers is five times slower, with three optimizers.

Writes `results/straggler.md` and `results/straggler.png`.

    python benchmarks/straggler.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import statistics
from pathlib import Path

import report
from matplotlib.figure import Figure
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "straggler.py"
PEERS, SLOWDOWN = 4, 5
METHODS = {
    "sync": "SynchronousSGDOptimizer",
    "pair": "PairAveragingOptimizer",
    "served": "ParameterServerOptimizer",
}
SECONDS = 180
Rates = dict[tuple[str, int], list[float]]  # by method and slowdown, one of each round


def rate_of_the_others(method: str, slowdown: int) -> float:
    """Steps per second, the mean of all peers but the last."""
    lines = reported(PROGRAM, method, slowdown, options=["-np", str(PEERS)], seconds=SECONDS)
    *others, _ = map(float, lines)
    return statistics.mean(others)


def table(rates: Rates) -> list[str]:
    """Markdown."""
    rows = []
    for method, name in METHODS.items():
        alike, slow = (statistics.median(rates[method, slowdown]) for slowdown in (1, SLOWDOWN))
        ratios = [b / a for a, b in zip(rates[method, 1], rates[method, SLOWDOWN], strict=True)]
        kept = 100 * statistics.median(ratios)
        rows.append(f"| {name} | {alike:.1f} | {slow:.1f} | {kept:.0f} % |")
    return [
        "Steps per second of each of the others, medians of the rounds. A step takes at least "
        f"20 ms, and {20 * SLOWDOWN} ms on the slow peer.",
        "",
        "| | all alike | one slow | kept |",
        "|---|---|---|---|",
        *rows,
    ]


def plot(rates: Rates) -> Figure:
    """Bars beside each other."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for i, (slowdown, label) in enumerate([(1, "all alike"), (SLOWDOWN, "one slow")]):
        heights = [statistics.median(rates[method, slowdown]) for method in METHODS]
        axes.bar([x + 0.4 * i for x in range(len(METHODS))], heights, 0.4, label=label)
    axes.set_xticks([x + 0.2 for x in range(len(METHODS))], list(METHODS.values()))
    axes.set(xlabel="optimizer", ylabel="steps per second of each of the others")
    axes.legend()
    return figure


def main() -> None:
    options = report.parser(__doc__, rounds=3).parse_args()
    rates: Rates = {}
    for _ in range(options.rounds):
        for method in METHODS:
            for slowdown in (1, SLOWDOWN):
                rate = rate_of_the_others(method, slowdown)
                rates.setdefault((method, slowdown), []).append(rate)
    title = f"One of {PEERS} peers is {SLOWDOWN} times slower"
    report.write(options.results / "straggler", title, table(rates), plot(rates))


if __name__ == "__main__":
    main()
