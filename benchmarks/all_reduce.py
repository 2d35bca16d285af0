"""`make bench`: how long sums over the processes of this host take, on every system that is here.

python benchmarks/all_reduce.py [--rounds 3] [--only KIND...] [--results DIR]

An all-reduce is verified before it is timed. The systems take turns, so compare the figures of
one section only. Writes a table and a plot into benchmarks/results/; all_reduce.json beside them
keeps the sections that are not measured again.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib import colormaps
from matplotlib.figure import Figure
from measure import Figures, in_turns, require
from programs.gradient_sets import SETS, as_arrays
from systems import absent, installed, notes_on

SIZES = [str(size) for size in (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20)]
GRADIENTS = "All gradients of a model"
FIT_BATCH = 32  # of programs/fit.py


class Section(NamedTuple):
    """A table: what is measured, of how many processes, in the words of its title."""

    kind: str
    peers: int
    keys: list[str]
    words: str

    @property
    def title(self) -> str:
        return f"{self.words}, {self.peers} processes"

    @property
    def axis(self) -> str:
        """What the keys are."""
        return "size of the buffer" if self.keys == SIZES else "model"

    @property
    def arguments(self) -> list[str]:
        """What programs are told to measure, for all keys."""
        return list(map(as_arrays, self.keys)) if self.kind == "sets" else self.keys


class Measured(NamedTuple):
    """The figures of a section, and where they come from."""

    source: str
    figures: Figures


SECTIONS = [
    *(Section("sums", n, SIZES, "In-place float32 sums, without TensorFlow") for n in (2, 4, 8)),
    *(Section("sets", n, list(SETS), f"{GRADIENTS}, summed without TensorFlow") for n in (2, 4, 8)),
    *(Section("call", n, SIZES, "Averages, each a call of a tf.function") for n in (2, 4)),
    *(Section("loop", n, SIZES, "Averages in a loop within a tf.function") for n in (2, 4)),
    *(Section("gradients", n, list(SETS), GRADIENTS) for n in (2, 4)),
    *(
        Section(
            "fit",
            n,
            ["9"],
            f"A step of Keras' fit, small CNN, {FIT_BATCH} samples for each process",
        )
        for n in (2, 4)
    ),
]


def kept(path: Path) -> dict[str, Measured]:
    """Of earlier calls, by title."""
    sections = json.loads(path.read_text()) if path.exists() else {}
    return {title: Measured(**section) for title, section in sections.items()}


def keep(path: Path, sections: dict[str, Measured]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {title: section._asdict() for title, section in sections.items()}
    path.write_text(json.dumps(plain, indent=1) + "\n")


def table(sections: dict[str, Measured], notes: Sequence[str]) -> list[str]:
    """Markdown."""
    words = "Medians of the rounds, and half of their spread. Compare within one section."
    lines = [" ".join([words, *notes]), ""]
    for section in SECTIONS:
        if section.title in sections:
            source, figures = sections[section.title]
            rows = (
                fit_rows(figures, section.peers)
                if section.kind == "fit"
                else report.table(figures, section.keys)
            )
            lines += [f"## {section.title}", "", source, "", *rows, ""]
    return lines


def fit_rows(figures: Figures, peers: int) -> Iterator[str]:
    """A Markdown table, with the samples of all processes."""
    yield "| | step | samples/s |"
    yield "|---|---|---|"
    for name, by_key in figures.items():
        steps = by_key.get("step", [])
        rate = f"{peers * FIT_BATCH / statistics.median(steps):.0f}" if steps else report.show([])
        yield f"| {name} | {report.show(steps)} | {rate} |"


def plot(sections: dict[str, Measured]) -> Figure | None:
    """Times by keys for two processes, a panel for each section that has several."""
    panels = [s for s in SECTIONS if s.title in sections and s.peers == 2 and len(s.keys) > 1]
    if not panels:
        return None
    figure = Figure(figsize=(7 * len(panels), 6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)
    for axis, section in zip(axes[0], panels, strict=True):
        axis.set_prop_cycle(color=colormaps["tab20"].colors)
        for system, by_key in sections[section.title].figures.items():
            if not by_key:
                continue
            medians = [statistics.median(seconds) for seconds in by_key.values()]
            style = "--" if system.startswith("limit") else "-"
            axis.plot(list(map(report.show_key, by_key)), medians, style, marker="o", label=system)
        report.label_times(axis, section.title, section.axis)
    return figure


def main() -> None:
    parser = report.parser(__doc__, rounds=3)
    kinds = {section.kind: section.words for section in SECTIONS}
    text = "; ".join(f"{kind}: {words}" for kind, words in kinds.items())
    parser.add_argument(
        "--only", nargs="+", choices=kinds, default=kinds, help=f"what to measure (all). {text}"
    )
    options = parser.parse_args()
    systems = installed()
    report.tell(notes_on(absent(systems)))
    require(systems.values(), options.only)
    json_path = options.results / "all_reduce.json"
    sections = kept(json_path)
    for section in SECTIONS:
        if section.kind in options.only:
            able = list(systems.values())
            figures = in_turns(able, section.peers, section.kind, section.arguments, options.rounds)
            if any(figures.values()):
                sections[section.title] = Measured(report.provenance(), figures)
                keep(json_path, sections)
    measured = {name for section in sections.values() for name in section.figures}
    lines = table(sections, notes_on(absent({*systems, *measured})))
    report.write(options.results / "all_reduce", "All-reduce on one host", lines, plot(sections))


if __name__ == "__main__":
    main()
