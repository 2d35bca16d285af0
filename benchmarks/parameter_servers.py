"""Parameter servers beside S-SGD: steps per second where peers are slow, slots, and accuracy.

Writes `results/parameter_servers.md` and `results/parameter_servers.png`.

    python benchmarks/parameter_servers.py [--rounds 3] [--seeds 2] [--results DIR]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report
import served_accuracy
from matplotlib.figure import Figure
from measure import reported

PROGRAMS = Path(__file__).parent / "programs"
PEERS, SLOWDOWN, SECONDS = 4, 5, 800
ALIKE = "all alike"
KIB = 1 << 10
Rates = dict[tuple[str, str], list[float]]  # by method and case, one of each round


def measured(rounds: int) -> tuple[Rates, dict[str, Any]]:
    """Steps per second, the mean of all peers but the last, and the line of the slots."""
    program = PROGRAMS / "parameter_servers.py"
    options = ["-np", str(PEERS)]
    lines = reported(program, SLOWDOWN, rounds, options=options, seconds=SECONDS)
    slots, *told = map(json.loads, lines)
    rates: Rates = defaultdict(list)
    for line in told:
        rates[line["method"], line["case"]].append(statistics.mean(line["rates"][:-1]))
    print(slots, dict(rates), file=sys.stderr, flush=True)
    return rates, slots


def rates_table(rates: Rates) -> Iterator[str]:
    """Markdown."""
    methods, cases = (list(dict.fromkeys(key[place] for key in rates)) for place in (0, 1))
    yield f"| steps per second | {' | '.join(cases)} |"
    yield "|---" * (1 + len(cases)) + "|"
    for method in methods:
        cells = []
        for case in cases:
            rate = statistics.median(rates[method, case])
            kept = 100 * rate / statistics.median(rates[method, ALIKE])
            cells.append(f"{rate:.1f}" + (f" ({kept:.0f} %)" if case != ALIKE else ""))
        yield f"| {method} | {' | '.join(cells)} |"


def slots_table(slots: dict[str, Any]) -> Iterator[str]:
    """Markdown."""
    yield "| | of all | of a peer, at most | 1/4 and the largest variable | |"
    yield "|---|---|---|---|---|"
    is_reached = slots["most"] <= slots["bound"]
    cells = [f"{slots[name] / KIB:.1f} KiB" for name in ("all", "most", "bound")]
    yield f"| slots of Adam | {' | '.join(cells)} | {'reached' if is_reached else 'missed'} |"


def plot(rates: Rates) -> Figure:
    """The rates in bars beside each other."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    methods, cases = (list(dict.fromkeys(key[place] for key in rates)) for place in (0, 1))
    for i, case in enumerate(cases):
        heights = [statistics.median(rates[method, case]) for method in methods]
        axes.bar([x + 0.25 * i for x in range(len(methods))], heights, 0.25, label=case)
    axes.set_xticks([x + 0.25 for x in range(len(methods))], methods)
    axes.set(ylabel="steps per second of the others")
    axes.legend()
    return figure


def main() -> None:
    parser = report.parser(__doc__ or "", rounds=3)
    parser.add_argument("--seeds", type=int, default=2, help="of each training (%(default)s)")
    options = parser.parse_args()
    rates, slots = measured(options.rounds)
    body = [
        f"{PEERS} peers; rounds: {options.rounds}. The machine's load was "
        f"{os.getloadavg()[2]:.1f} in the last 15 minutes.",
        "",
        "Steps per second of each of the others, medians of the rounds, and what is kept of the "
        f"rate with all alike. To compute a gradient takes 20 ms, and {20 * SLOWDOWN} ms in a slow "
        "step. A bound does not help where one peer is always slow: sooner or later all wait for "
        "it. It helps where each is slow at times.",
        "",
        *rates_table(rates),
        "",
        "Beside what it serves each peer has a copy of all weights.",
        "",
        *slots_table(slots),
        "",
        *served_accuracy.section(served_accuracy.measured(options.seeds)),
    ]
    title = "Parameter servers"
    report.write(options.results / "parameter_servers", title, body, plot(rates))


if __name__ == "__main__":
    main()
