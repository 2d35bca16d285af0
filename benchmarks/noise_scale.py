"""How many steps and samples a target takes with batches that follow the gradient noise scale.

Writes `results/noise_scale.md` and `results/noise_scale.png`.

    python benchmarks/noise_scale.py [--results DIR]

That takes a quarter to half an hour on two cores: trainings are kept in results/noise_scale.jsonl,
with the points of the picture, and those that stand there are not repeated: remove it to train
anew.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "noise_scale.py"
PEERS, SECONDS = 2, 3000
SEEDS = (1, 2, 3, 4, 5, 6)
RATE = 0.02  # of 0.01 and 0.02 the one with which fixed batches take fewer samples (seed 9)
KINDS = {
    "fixed": "batch of 32, as at first",
    "policy": "NoiseScaleBatchSizePolicy",
    "noise": "the same, told random numbers between the smallest batch and the largest",
    "constant": "the same, told the median of what was measured",
    "shuffled": "the same, told what was measured in another order",
    "mean": "the policy's mean batch from the first step on",
}


class Course(NamedTuple):
    """How a training reached the target, or did not, and of which commit it was."""

    kind: str
    seed: int
    reached: bool
    steps: int
    samples: int
    points: list[tuple[int, int, float]]  # at times: samples, batch of all, noise scale
    commit: str


Courses = dict[str, list[Course]]  # by kind, one of each seed


def trained(seed: int) -> list[Course]:
    """One of each kind, one after the other in the same processes."""
    options = ["-np", str(PEERS)]
    lines = reported(PROGRAM, seed, RATE, *KINDS, options=options, seconds=SECONDS)
    return [Course(**json.loads(line), commit=report.commit()) for line in lines]


def kept(path: Path) -> list[Course]:
    """The trainings of earlier calls."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Course(**json.loads(line)) for line in lines]


def keep(path: Path, courses: Sequence[Course]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for course in courses:
            print(json.dumps(course._asdict()), file=file)


def table(courses: Courses) -> list[str]:
    """Markdown."""
    rows = []
    for kind, title in KINDS.items():
        pairs = list(zip(courses[kind], courses["fixed"], strict=True))
        row = [
            title + ("" if all(c.reached for c, _ in pairs) else " (not always there)"),
            report.show_mean([course.steps for course, _ in pairs], ",.0f"),
            report.show_mean([course.samples for course, _ in pairs], ",.0f"),
            report.show_mean([fixed.steps / course.steps for course, fixed in pairs], ".2f"),
            report.show_mean([course.samples / fixed.samples for course, fixed in pairs], ".2f"),
        ]
        rows.append("| " + " | ".join(row) + " |")
    return [
        f"{PEERS} peers train the small CNN of `programs/convergence.py` on 53,248 images of "
        "Fashion-MNIST, until four successive accuracies on 6,752 validation images, an eighth "
        "of an epoch apart, "
        f"have a mean of 87 %. SGD with momentum 0.9 begins with a batch of 32 of both peers and a "
        f"rate of {RATE:g}; the rate follows the batch linearly. Mean of {len(SEEDS)} seeds, and "
        "their range; the last two columns compare with the first row, seed by seed. Trained at "
        f"{', '.join(sorted({c.commit for of_kind in courses.values() for c in of_kind}))}.",
        "",
        "| | steps | samples | times fewer steps | times the samples |",
        "|---|---|---|---|---|",
        *rows,
        "",
        *compared(courses),
        *elastic_run(courses["policy"]),
    ]


def compared(courses: Courses) -> list[str]:
    """Markdown: with how many seeds the policy is better than when it is told something else."""

    def better_than(kind: str) -> int:
        pairs = zip(courses["policy"], courses[kind], strict=True)
        return sum(ours.steps < theirs.steps for ours, theirs in pairs)

    return [
        f"The policy took fewer steps than with the constant with {better_than('constant')} of "
        f"{len(SEEDS)} seeds, than with another order with {better_than('shuffled')}, and than "
        f"with random numbers with {better_than('noise')}. The first two are told, in hindsight, "
        "what it had measured in its whole course. It doubles the batch at most once in 100 steps, "
        "whatever it is told: that alone avoids what large batches cost from the first step on.",
        "",
    ]


def elastic_run(courses: Sequence[Course]) -> list[str]:
    """Markdown: how near the batch is to what was measured."""
    points = [point for course in courses for point in course.points]
    near = statistics.mean(0.5 <= noise_scale / batch <= 2 for _, batch, noise_scale in points)
    first = statistics.mean(course.points[0][2] for course in courses)
    last = [statistics.mean(course.points[-1][i] for course in courses) for i in (1, 2)]
    return [
        f"With the policy the noise scale grows from {first:.0f} to {last[1]:.0f}, and the batch "
        f"of all peers from 32 to {last[0]:.0f}. In {100 * near:.0f} % of the intervals of 100 "
        "steps, after which it may change, it was within a factor of two of what was measured.",
    ]


def plot(courses: Courses) -> Figure:
    """Batch and noise scale by samples, a field for each seed."""
    columns, rows = 3, math.ceil(len(SEEDS) / 3)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True).flat
    for axis, seed, course in zip(axes, SEEDS, courses["policy"], strict=True):
        samples, batches, noise_scales = zip(*course.points, strict=True)
        thousands = [n / 1000 for n in samples]
        axis.plot(thousands, noise_scales, ".-", label="noise scale, measured")
        axis.step(thousands, batches, where="pre", label="batch of all peers")
        axis.set(title=f"seed {seed}", yscale="log")
        axis.grid(alpha=0.3)
    figure.supxlabel("thousand samples trained on")
    figure.supylabel("samples")
    axes[0].legend(fontsize="small")
    return figure


def main() -> None:
    options = report.parser(__doc__).parse_args()
    path = options.results / "noise_scale.jsonl"
    courses = kept(path)
    for seed in SEEDS:
        if not any(course.seed == seed for course in courses):
            done = trained(seed)
            keep(path, done)
            courses += done
    courses.sort(key=lambda course: course.seed)
    by_kind = {kind: [course for course in courses if course.kind == kind] for kind in KINDS}
    title = "Batches that follow the gradient noise scale"
    report.write(options.results / "noise_scale", title, table(by_kind), plot(by_kind))


if __name__ == "__main__":
    main()
