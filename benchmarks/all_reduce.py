"""`make bench`: how long sums over the processes of this host take, on every system that is here.

python benchmarks/all_reduce.py [--rounds 3] [--only sums call loop gradients fit] [--results DIR]

Every result is verified before anything is timed. The systems take turns, so compare the figures of
one run only. Writes a table and a plot into benchmarks/results/.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import report
from matplotlib import colormaps
from matplotlib.figure import Figure
from measure import Figures, in_turns
from systems import installed

SIZES = [str(size) for size in (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20)]


class Section(NamedTuple):
    """A table: what is measured, of how many processes, in the words of its title."""

    kind: str
    peers: int
    keys: list[str]
    title: str


SECTIONS = [
    *(Section("sums", n, SIZES, "In-place float32 sums, without TensorFlow") for n in (2, 4, 8)),
    *(Section("call", n, SIZES, "Averages, each a call of a tf.function") for n in (2, 4)),
    *(Section("loop", n, SIZES, "Averages in a loop within a tf.function") for n in (2, 4)),
    *(
        Section("gradients", n, ["resnet50", "vgg16", "bert-base"], "All gradients of a model")
        for n in (2, 4)
    ),
    Section("fit", 2, ["9"], "A step of Keras' fit, small CNN, 32 samples for each process"),
]


def plot(panels: dict[str, Figures]) -> Figure:
    """Times by keys, a panel for each title."""
    figure = Figure(figsize=(7 * len(panels), 6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)
    for axis, (title, figures) in zip(axes[0], panels.items(), strict=True):
        axis.set_prop_cycle(color=colormaps["tab20"].colors)
        for system, by_key in figures.items():
            medians = [statistics.median(seconds) for seconds in by_key.values()]
            style = "--" if system.startswith("limit") else "-"
            axis.plot(list(map(report.show_key, by_key)), medians, style, marker="o", label=system)
        axis.set(title=title, yscale="log", ylabel="seconds")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


def main() -> None:
    parser = report.parser(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", default=[section.kind for section in SECTIONS])
    options = parser.parse_args()
    systems = list(installed().values())
    lines = ["Medians of the rounds, and half of their spread. Compare within one table.", ""]
    panels: dict[str, Figures] = {}
    for section in SECTIONS:
        if section.kind not in options.only:
            continue
        title = f"{section.title}, {section.peers} processes"
        figures = in_turns(systems, section.peers, section.kind, section.keys, options.rounds)
        keys = ["step"] if section.kind == "fit" else section.keys
        lines += [f"## {title}", "", *report.table(figures, keys), ""]
        if len(section.keys) > 1 and section.peers == 2:
            panels[title] = figures
        picture = plot(panels) if panels else None
        report.write(options.results / "all_reduce", "All-reduce on one host", lines, picture)


if __name__ == "__main__":
    main()
