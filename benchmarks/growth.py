"""`make bench-growth`: what more processes cost, on one machine, with each strategy.

Writes `results/growth.md` and `results/growth.png`.

    python benchmarks/growth.py [--most 512] [--only TREE AUTO] [--results DIR]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import Failed, once, require
from systems import BINARIES, System, by_kungfu_run

from kungfu_tf.native import environment

STRATEGIES = environment.strategies()
MOST = 512
# A sum of 64 KiB is 16 chunks, which a strategy spreads over its graphs. Without the host's memory
# each peer speaks with its neighbours in the graphs, as if all were hosts.
SETTINGS = {"KUNGFU_CHUNK_BYTES": "4096", "KUNGFU_DIRECT": "off"}
MEMORY_KEPT = 0.4  # of what is free: more is not taken


class Quantity(NamedTuple):
    """A figure of `programs/many.cc`. `total`: it is of all processes together."""

    key: str
    words: str
    per: float = 1
    total: bool = False


QUANTITIES = [
    Quantity("connections", "connections", total=True),
    Quantity("descriptors", "descriptors, at most in one process"),
    Quantity("all_memory", "MiB, all together", 1 << 20, total=True),
    Quantity("ready", "seconds to the first sum"),
    Quantity("hundredth", "seconds for 99 more"),
]
Figures = dict[int, dict[str, float]]  # by the number of processes


def system(strategy: str) -> System:
    program = [str(BINARIES / "benchmark_many")]
    environ = {**SETTINGS, "KUNGFU_STRATEGY": strategy}
    return System(strategy, by_kungfu_run, {"many": program}, environ)


def measured(strategy: str, most: int) -> Figures:
    """As far as the memory is enough: twice the processes may take four times as much."""
    figures: Figures = {}
    processes = 2
    while processes <= most:
        print(f"{strategy}, {processes} processes", file=sys.stderr)
        try:
            figures[processes] = once(system(strategy), processes, "many", [])
        except Failed as error:
            print(error, file=sys.stderr)
            break
        if 4 * figures[processes]["all_memory"] > MEMORY_KEPT * free_memory():
            break
        processes *= 2
    return figures


def free_memory() -> float:
    """In bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return math.inf


def exponent(figures: Figures, key: str) -> float:
    """e, if the last doubling of the processes has multiplied a figure by 2 to the e."""
    before, after = (figures[processes][key] for processes in sorted(figures)[-2:])
    return math.log2(after / before)


def linearithmic(figures: Figures) -> float:
    """The same of n log n."""
    before, after = (n * math.log2(n) for n in sorted(figures)[-2:])
    return math.log2(after / before)


def table(quantity: Quantity, grown: dict[str, Figures]) -> Iterator[str]:
    """Markdown: a row for each strategy, and of totals how they grow."""
    sizes = sorted({size for figures in grown.values() for size in figures})
    yield f"## {quantity.words[0].upper()}{quantity.words[1:]}"
    yield ""
    growth = " | last doubling |" if quantity.total else " |"
    yield "| processes | " + " | ".join(map(str, sizes)) + growth
    yield "|---" * (1 + len(sizes) + quantity.total) + "|"
    for strategy, figures in grown.items():
        cells = [shown(figures.get(size, {}).get(quantity.key), quantity.per) for size in sizes]
        if quantity.total:
            cells.append(doubling(figures, quantity.key))
        yield f"| {strategy} | " + " | ".join(cells) + " |"
    yield ""


def shown(figure: float | None, per: float) -> str:
    if figure is None:
        return ""
    return f"{figure / per:,.0f}" if figure >= 10 * per else f"{figure / per:.2g}"


def doubling(figures: Figures, key: str) -> str:
    """How many times as much; bold where n log n would be less."""
    if len(figures) < 2:
        return ""
    factor = f"{2 ** exponent(figures, key):.2f} ×"
    return f"**{factor}**" if exponent(figures, key) > linearithmic(figures) else factor


def plot(grown: dict[str, Figures]) -> Figure:
    """A panel for each quantity, a line for each strategy."""
    figure = Figure(figsize=(4.5 * len(QUANTITIES), 4.5), layout="constrained")
    for axis, quantity in zip(figure.subplots(1, len(QUANTITIES)), QUANTITIES, strict=True):
        for strategy, figures in grown.items():
            values = [each[quantity.key] / quantity.per for each in figures.values()]
            axis.loglog(list(figures), values, "o-", base=2, label=strategy)
        axis.set(title=quantity.words, xlabel="processes")
        axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    return figure


def main() -> None:
    options = report.parser(__doc__)
    text = "the largest number of processes (%(default)s)"
    options.add_argument("--most", type=int, default=MOST, metavar="N", help=text)
    text = "of these strategies"
    options.add_argument("--only", nargs="+", choices=STRATEGIES, default=STRATEGIES, help=text)
    arguments = options.parse_args()
    require([system(arguments.only[0])])
    grown = {strategy: measured(strategy, arguments.most) for strategy in arguments.only}
    grown = {strategy: figures for strategy, figures in grown.items() if figures}
    body = [
        "The core alone, all processes on this machine: sums of 64 KiB in 16 chunks, through rings",
        "in shared memory and not in each other's tensors. Bold: the last doubling has cost more",
        "than n log n would. A row ends where the memory of the machine might. Up to 64 peers of a",
        "sum that takes more than a second ask each other: then each pair has a connection.",
        "",
        *(line for quantity in QUANTITIES for line in table(quantity, grown)),
    ]
    report.write(arguments.results / "growth", "Growth", body, plot(grown) if grown else None)


if __name__ == "__main__":
    main()
