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
from systems import VENVS

PROGRAMS = Path(__file__).parent / "programs"
HOROVOD = VENVS / "horovod" / "bin" / "python"
SECONDS = 800
SIZE, LARGE = "12 MiB", "ResNet-50"
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
TRIED, WIDE = LINKS[0], LINKS[2]  # the second is for the gradients of a large model
TARGETS = {
    "S-SGD, PowerSGD 4": Target(3.0, 100.0),
    "S-SGD, bfloat16": Target(1.6),
    "S-SGD, Int8": Target(2.5),
    "DiLoCo 20": Target(10.0),
}
Lines = list[dict[str, Any]]


def steps(link: Link, peers: int, rounds: int, size: str, *sections: str) -> Lines:
    """A line of each method of these sections; of Horovod, too, if it is installed."""
    options = ["--hosts", str(link.hosts), "--rate", link.rate, str(peers)]
    arguments = (rounds, size, *sections)

    def run(program: str, python: str) -> Lines:
        name = PROGRAMS / program
        found = reported(
            name, *arguments, options=options, seconds=SECONDS, launcher=HOSTS, python=python
        )
        print(link.title, *found, sep="\n", file=sys.stderr, flush=True)
        return [json.loads(line) for line in found]

    lines = run("thin_link.py", sys.executable)
    return lines + run("thin_link_horovod.py", str(HOROVOD)) if HOROVOD.exists() else lines


def measured(link: Link, rounds: int) -> Lines:
    """Of a link."""
    lines = steps(link, link.hosts, rounds, SIZE, "exchange", "overlap")
    if link == WIDE:
        large = steps(link, link.hosts, rounds, LARGE, "exchange")
        lines += [{**line, "section": LARGE} for line in large]
    return lines


def of(lines: Lines, section: str) -> Lines:
    return [line for line in lines if line["section"] == section]


def median(lines: Lines, method: str) -> tuple[float, float]:
    """The seconds and the bytes of a step."""
    [line] = [line for line in lines if line["method"] == method]
    return statistics.median(line["seconds"]), line["sent"]


def section(link: Link, lines: Lines) -> Iterator[str]:
    """Markdown."""
    yield from (f"## {link.title}", "")
    yield from exchanges_of(of(lines, "exchange"), "a step without computing")
    if large := of(lines, LARGE):
        yield from exchanges_of(large, f"the same, the gradients of {LARGE}")
    overlaps = [line for line in of(lines, "overlap") if not line["method"].startswith("Horovod")]
    alone, _ = median(overlaps, ALONE)
    yield from ("| a step of 100 ms | time | × no exchange |", "|---|---|---|")
    for line in overlaps:
        mine, _ = median(overlaps, line["method"])
        yield f"| {line['method']} | {report.show(line['seconds'])} | {mine / alone:.3f} |"
    yield ""


def exchanges_of(exchanges: Lines, title: str) -> Iterator[str]:
    """Markdown."""
    seconds, sent = median(exchanges, PLAIN)
    yield f"| {title} | time | × as fast | MiB sent | of 1 |"
    yield "|---|---|---|---|---|"
    for line in exchanges:
        mine, bytes_sent = median(exchanges, line["method"])
        saving = f"1/{sent / bytes_sent:.3g}" if bytes_sent > sent / 1e4 else "0"
        yield (
            f"| {line['method']} | {report.show(line['seconds'])} | {seconds / mine:.2f} | "
            f"{bytes_sent / MIB:.3f} | {saving} |"
        )
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
        "peers, headers included; of Horovod 0.28.1, on TensorFlow 2.15 over Gloo, those of the "
        f"cable. The machine's load was {load:.1f} in the last 15 minutes."
    )
    sections = [row for link, lines in results.items() for row in section(link, lines)]
    body = [intro, "", *sections, *verdicts(results[TRIED])]
    title = "Steps over thin links"
    report.write(options.results / "thin_link", title, body, plot(results))


if __name__ == "__main__":
    main()
