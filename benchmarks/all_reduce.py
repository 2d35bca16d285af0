"""`make bench`: how long sums over the processes of this host take, on every system that is here.

python benchmarks/all_reduce.py [--rounds 3] [--only sums call loop gradients fit]

Every result is verified before anything is timed. The systems take turns, so compare the figures of
one run only. Writes a table and a plot into benchmarks/results/.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import report
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[section.kind for section in SECTIONS])
    options = parser.parse_args()
    systems = list(installed().values())
    lines = ["# All-reduce on one host", "", report.provenance(), ""]
    lines += ["Medians of the rounds, and half of their spread. Compare within one table.", ""]
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
        report.write("all_reduce", lines)
    if panels:
        report.plot("all_reduce", panels)


if __name__ == "__main__":
    main()
