"""What AUTO chooses, beside every strategy that it can choose, on one host and on two.

Writes `results/auto.md` and `results/auto.png`.

    python benchmarks/auto.py [--rounds 5] [--results DIR]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import Figures, in_turns, require
from systems import (
    BINARIES,
    CORE_HOSTS,
    System,
    by_kungfu_run,
    by_two_hosts,
    may_have_hosts,
    notes_on,
)

from kungfu_tf.native import environment

AUTO, *STRATEGIES = environment.strategies()
SIZES = [str(size) for size in (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20)]


class Layout(NamedTuple):
    """How many peers, and where they are."""

    words: str
    peers: int
    start: Callable[[int], list[str]]

    def systems(self) -> list[System]:
        """One for each strategy."""
        program = [str(BINARIES / "benchmark_core"), "ordinary"]
        return [
            System(name, self.start, {"sums": program}, {"KUNGFU_STRATEGY": name})
            for name in (AUTO, *STRATEGIES)
        ]


def layouts() -> list[Layout]:
    """Those that can be had: a host of its own takes root."""
    two = [Layout("2 hosts with 2 peers each", 4, by_two_hosts)] if may_have_hosts() else []
    return [Layout("1 host with 4 peers", 4, by_kungfu_run), *two]


def section(layout: Layout, figures: Figures) -> Iterator[str]:
    """Markdown; the last row says how AUTO compares."""
    yield from (f"## {layout.words}", "")
    yield from report.table(figures, SIZES)
    yield "| AUTO beside the fastest | " + " | ".join(compared(figures)) + " |"
    yield ""


def compared(figures: Figures) -> Iterator[str]:
    """For each size: AUTO's median over the least, and whose that is, if both were measured."""
    medians = {
        name: {key: statistics.median(seconds) for key, seconds in by_key.items()}
        for name, by_key in figures.items()
        if by_key
    }
    for key in SIZES:
        others = {name: medians[name][key] for name in medians if name != AUTO}
        if AUTO in medians and others:
            fastest = min(others, key=lambda name: others[name])
            yield f"{medians[AUTO][key] / others[fastest]:.2f} × ({fastest})"
        else:
            yield report.show([])


def plot(measured: dict[Layout, Figures]) -> Figure | None:
    """Times by size, a panel for each layout."""
    if not measured:
        return None
    figure = Figure(figsize=(7 * len(measured), 5), layout="constrained")
    axes = figure.subplots(1, len(measured), squeeze=False)
    for axis, (layout, figures) in zip(axes[0], measured.items(), strict=True):
        for name, by_key in figures.items():
            medians = [statistics.median(seconds) for seconds in by_key.values()]
            sizes, width = list(map(report.show_key, by_key)), 3 if name == AUTO else 1
            axis.plot(sizes, medians, "o-", linewidth=width, label=name)
        report.label_times(axis, layout.words, "size of the buffer")
    return figure


def main() -> None:
    options = report.parser(__doc__, rounds=5).parse_args()
    notes = notes_on([] if may_have_hosts() else [CORE_HOSTS])
    report.tell(notes)
    for layout in layouts():
        require(layout.systems(), ["sums"])
    measured = {}
    for layout in layouts():
        figures = in_turns(layout.systems(), layout.peers, "sums", SIZES, options.rounds)
        if any(figures.values()):
            measured[layout] = figures
    words = "In-place float32 sums in the core, in ordinary memory. Medians of the rounds."
    lines = [" ".join([words, *notes]), ""]
    for layout, figures in measured.items():
        lines += section(layout, figures)
    title = "What AUTO chooses, beside every strategy"
    report.write(options.results / "auto", title, lines, plot(measured))


if __name__ == "__main__":
    main()
