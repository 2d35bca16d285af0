"""What a step takes over thin links, by each method that talks less, and what it sends.

Writes `results/thin_link.md` and `results/thin_link.png`. For root: hosts are network namespaces.

    python benchmarks/thin_link.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import report
from matplotlib.figure import Figure
from measure import HOSTS, reported

PROGRAM = Path(__file__).parent / "programs" / "thin_link.py"
SECONDS = 800
MIB = 1 << 20
PLAIN = "S-SGD"
ALONE = "no exchange"


class Link(NamedTuple):
    """Hosts with one peer each, and the rate of their cables."""

    hosts: int
    rate: str

    @property
    def title(self) -> str:
        return f"{self.hosts} hosts, {self.rate.replace('bit', 'bit/s')}"


class Target(NamedTuple):
    """What a method means to reach on `TRIED`."""

    faster: float  # than S-SGD
    fewer: float = 1.0  # bytes than S-SGD


LINKS = tuple(Link(hosts, rate) for rate in ("100mbit", "1gbit") for hosts in (2, 4))
TRIED = LINKS[0]
TARGETS = {
    "S-SGD, PowerSGD 4": Target(3.0, 100.0),
    "S-SGD, bfloat16": Target(1.6),
    "S-SGD, Int8": Target(2.5),
    "DiLoCo 20": Target(10.0),
}
Lines = list[dict[str, Any]]


def measured(link: Link, rounds: int) -> Lines:
    """A line of each method."""
    options = ["--hosts", str(link.hosts), "--rate", link.rate, str(link.hosts)]
    lines = reported(PROGRAM, rounds, options=options, seconds=SECONDS, launcher=HOSTS)
    print(link.title, *lines, sep="\n", file=sys.stderr, flush=True)
    return [json.loads(line) for line in lines]


def of(lines: Lines, section: str) -> Lines:
    return [line for line in lines if line["section"] == section]


def median(lines: Lines, method: str) -> tuple[float, float]:
    """The seconds and the bytes of a step."""
    [line] = [line for line in lines if line["method"] == method]
    return statistics.median(line["seconds"]), line["sent"]


def section(link: Link, lines: Lines) -> Iterator[str]:
    """Markdown."""
    yield from (f"## {link.title}", "")
    exchanges = of(lines, "exchange")
    seconds, sent = median(exchanges, PLAIN)
    yield "| a step without computing | time | × as fast | MiB sent | of 1 |"
    yield "|---|---|---|---|---|"
    for line in exchanges:
        mine, bytes_sent = median(exchanges, line["method"])
        saving = f"1/{sent / bytes_sent:.3g}" if bytes_sent > sent / 1e4 else "0"
        yield (
            f"| {line['method']} | {report.show(line['seconds'])} | {seconds / mine:.2f} | "
            f"{bytes_sent / MIB:.3f} | {saving} |"
        )
    yield ""
    overlaps = of(lines, "overlap")
    alone, _ = median(overlaps, ALONE)
    yield from ("| a step of 100 ms | time | × no exchange |", "|---|---|---|")
    for line in overlaps:
        mine, _ = median(overlaps, line["method"])
        yield f"| {line['method']} | {report.show(line['seconds'])} | {mine / alone:.3f} |"
    yield ""


def verdicts(lines: Lines) -> Iterator[str]:
    """Markdown: the targets of the first link."""
    exchanges = of(lines, "exchange")
    seconds, sent = median(exchanges, PLAIN)
    yield from (f"## Targets on {TRIED.title}", "")
    yield "| | × as fast | at least | bytes, of 1 | at most | |"
    yield "|---|---|---|---|---|---|"
    for method, target in TARGETS.items():
        mine, bytes_sent = median(exchanges, method)
        faster, fewer = seconds / mine, sent / bytes_sent
        is_reached = faster >= target.faster and fewer >= target.fewer
        bound = f"1/{target.fewer:g}" if target.fewer > 1 else ""
        yield (
            f"| {method} | {faster:.2f} | {target.faster:g} | 1/{fewer:.3g} | {bound} | "
            f"{'reached' if is_reached else 'missed'} |"
        )


def plot(results: dict[Link, Lines]) -> Figure:
    """The bytes and the time of a step, a panel for each link."""
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for axes, (link, lines) in zip(panels, results.items(), strict=True):
        exchanges = of(lines, "exchange")
        for line in exchanges:
            if line["method"] != ALONE:
                seconds, sent = median(exchanges, line["method"])
                axes.plot(sent / MIB, 1e3 * seconds, "o", label=line["method"])
        axes.set(title=link.title, xlabel="MiB sent", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("milliseconds of a step")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main() -> None:
    options = report.parser(__doc__ or "", rounds=3).parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces, which only root can make")
    results = {link: measured(link, options.rounds) for link in LINKS}
    load = os.getloadavg()[2]
    intro = (
        "One peer on each host, three matrices of 1024 × 1024 and three vectors, 12 MiB of "
        "float32. The gradients are there already. Bytes are the core's count, the mean of all "
        f"peers, headers included. The machine's load was {load:.1f} in the last 15 minutes."
    )
    sections = [row for link, lines in results.items() for row in section(link, lines)]
    body = [intro, "", *sections, *verdicts(results[TRIED])]
    title = "Steps over thin links"
    report.write(options.results / "thin_link", title, body, plot(results))


if __name__ == "__main__":
    main()
