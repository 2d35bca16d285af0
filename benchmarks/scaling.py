"""How much of their speed eight peers keep on hosts with thin links, by each method.

Writes `results/scaling.md` and `results/scaling.png`. For root: hosts are network namespaces.

    python benchmarks/scaling.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import report
from matplotlib.figure import Figure
from thin_link import ALONE, MIB, Lines, Link, median, steps

PEERS, LINK, SIZE = 8, Link(4, "500mbit"), "3 MiB"
TARGET = 0.95
TRIED = ("DiLoCo 20", "one neighbour, overlapped", "one peer (pair averaging)")


def efficiency(lines: Lines, method: str) -> float:
    """The part of the time that is left for computing."""
    return median(lines, ALONE)[0] / median(lines, method)[0]


def table(lines: Lines) -> Iterator[str]:
    """Markdown."""
    yield from ("| | step | efficiency | MiB sent | target | |", "|---|---|---|---|---|---|")
    for line in lines:
        method = line["method"]
        part, target, verdict = efficiency(lines, method), "", ""
        if method in TRIED:
            target, verdict = f"{100 * TARGET:.0f} %", "reached" if part >= TARGET else "missed"
        cells = (
            method,
            report.show(line["seconds"]),
            f"{100 * part:.1f} %",
            f"{line['sent'] / MIB:.3f}",
            target,
            verdict,
        )
        yield f"| {' | '.join(cells)} |"


def plot(lines: Lines) -> Figure:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    methods = [line["method"] for line in lines]
    axes.barh(methods, [100 * efficiency(lines, method) for method in methods])
    axes.axvline(100 * TARGET, color="black", linestyle=":")
    axes.set(xlabel="efficiency, %", title=f"{PEERS} peers on {LINK.title}")
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")
    return figure


def main() -> None:
    options = report.parser(__doc__ or "", rounds=3).parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces, which only root can make")
    lines = steps(LINK, PEERS, options.rounds, SIZE, "scaling")
    body = [
        f"{PEERS} peers on {LINK.title}, {SIZE} of gradients. A step waits for 450 ms, as for an "
        "accelerator that computes, and then exchanges and updates: Horovod keeps about two thirds "
        "of its speed so. Efficiency is the time of a "
        "step without an exchange, of as many processes on the same machine, over that of the "
        "method. No gradient is there before all are, so nothing of an exchange of gradients is "
        "hidden. Bytes are those of a peer and step, by the core's count; of Horovod 0.28.1, on "
        "TensorFlow 2.15 over Gloo, those of the cable. "
        f"The machine's load was {os.getloadavg()[2]:.1f} in the last 15 minutes.",
        "",
        *table(lines),
    ]
    report.write(options.results / "scaling", "Scaling over thin links", body, plot(lines))


if __name__ == "__main__":
    main()
