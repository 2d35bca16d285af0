"""This tree beside another one of kungfu_tf: whether anything has become slower.

Writes `results/beside.md`. Ends with code 1 where a median is more than 5 % slower, and surely so.

    python benchmarks/beside.py DIR [--rounds 5] [--results DIR]

DIR is a checkout in which `make bench-programs` was called. Programs in TensorFlow are this tree's,
and import the package of each.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import report
import systems
import verdict
from measure import Figures, environment, in_turns, require
from programs.gradient_sets import SETS
from systems import System
from verdict import Verdict

SLOWER = 1.05
WORDS = {
    Verdict.REACHED: "not slower",
    Verdict.FALLS_SHORT: "slower",
    Verdict.UNDECIDED: "undecided",
}
SIZES = [str(size) for size in (4, 64 << 10, 1 << 20, 16 << 20, 100 << 20)]


class Part(NamedTuple):
    """Measured in turns with one system of both trees.

    Attributes:
        words: What it is.
        name: Of the system.
        kind: What its program measures.
        peers: Of how many processes.
        keys: The program is told these.
        shown: The figures that it reports.
    """

    words: str
    name: str
    kind: str
    peers: int
    keys: list[str]
    shown: list[str]


def parts() -> Iterator[Part]:
    for name, peers in ((systems.SHARED, 2), (systems.SHARED, 4), (systems.CORE_HOSTS, 2)):
        yield Part(f"sums, {name.removeprefix('core, ')}", name, "sums", peers, SIZES, SIZES)
    for peers in (2, 4):
        models = list(SETS)
        yield Part("gradients of a model", systems.OURS, "gradients", peers, models, models)
    for peers in (1, 2, 4):
        yield Part("`fit`, small CNN", systems.OURS, "fit", peers, ["9"], ["step"])


def of_tree(system: System, tree: Path, name: str) -> System:
    """The same system, of another checkout."""

    def start(peers: int) -> list[str]:
        return ["env", "-C", str(tree), *system.start(peers)]

    def moved(word: str) -> str:
        binaries = str(systems.BINARIES)
        return word.replace(binaries, str(tree / systems.BINARIES.relative_to(systems.ROOT)))

    programs = {kind: [moved(word) for word in words] for kind, words in system.programs.items()}
    environ = {**system.environ, "PYTHONPATH": environment(1, tree)["PYTHONPATH"]}
    return dataclasses.replace(system, name=name, start=start, programs=programs, environ=environ)


def rows(part: Part, figures: Figures, names: tuple[str, str]) -> Iterator[tuple[str, Verdict]]:
    """Of a table in Markdown, with what each shows."""
    for key in part.shown:
        ours, theirs = (figures.get(name, {}).get(key, []) for name in names)
        what = f"{part.words}, {part.peers} processes, {report.show_key(key)}"
        if not ours or not theirs:
            yield f"| {what} | {report.show(ours)} | {report.show(theirs)} | | |", Verdict.UNDECIDED
            continue
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        ratio, found = verdict.at_most({report.show_key(key): ratios}, SLOWER)
        cells = (what, report.show(ours), report.show(theirs), ratio, WORDS[found])
        yield f"| {' | '.join(cells)} |", found


def main() -> int:
    options = report.parser(__doc__ or "", rounds=5)
    options.add_argument("tree", type=Path, metavar="DIR", help="the other checkout, built")
    arguments = options.parse_args()
    tree: Path = arguments.tree.resolve()
    git = ["git", "-C", str(tree), "describe", "--always", "--abbrev=12"]
    other = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    here = systems.installed()
    names = ("this tree", other)
    lines, found = [], []
    for part in parts():
        if part.name not in here:
            continue
        both = [
            of_tree(here[part.name], root, name)
            for root, name in zip((systems.ROOT, tree), names, strict=True)
        ]
        require(both, {part.kind})
        figures = in_turns(both, part.peers, part.kind, part.keys, arguments.rounds)
        for line, shown in rows(part, figures, names):
            lines.append(line)
            found.append(shown)
    body = [
        f"{arguments.rounds} rounds in turns: medians, that of the rounds' ratios, and the "
        f"interval in which it lies with 95 %. Slower is what is above {SLOWER} × with all of it.",
        "",
        f"| | {names[0]} | {names[1]} | ratio | |",
        "|---|---|---|---|---|",
        *lines,
    ]
    report.write(arguments.results / "beside", "Beside another commit", body)
    return int(Verdict.FALLS_SHORT in found)


if __name__ == "__main__":
    sys.exit(main())
