"""What it costs to measure the gradient noise scale in every step.

Writes `results/monitoring.md` and `results/monitoring.png`.

    python benchmarks/monitoring.py [--rounds 15] [--results DIR]
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import reported
from verdict import at_most

PROGRAM = Path(__file__).parent / "programs" / "monitoring.py"
PEERS = 2
SECONDS, SECONDS_PER_ROUND = 300, 60


class Target(NamedTuple):
    """What is measured, and how many times the plain seconds it may take."""

    what: str
    factor: float


TARGETS = {
    "exchange": Target("exchange of ResNet-50's gradients in a `tf.function`", 1.15),
    "step": Target("step of ResNet-50 at batch 8", 1.02),
}


class Turn(NamedTuple):
    """Seconds, one after the other."""

    plain: float
    monitored: float

    @property
    def ratio(self) -> float:
        return self.monitored / self.plain


Turns = dict[str, list[Turn]]  # by what was measured


def measured(rounds: int) -> Turns:
    seconds = SECONDS + SECONDS_PER_ROUND * rounds
    turns: Turns = {what: [] for what in TARGETS}
    for line in reported(PROGRAM, rounds, options=["-np", str(PEERS)], seconds=seconds):
        turn = json.loads(line)
        turns[turn.pop("what")].append(Turn(**turn))
    return turns


def median_ratio(turns: list[Turn]) -> float:
    return statistics.median(turn.ratio for turn in turns)


def table(turns: Turns) -> list[str]:
    """Markdown."""
    rows = []
    for key, (what, factor) in TARGETS.items():
        own = turns[key]
        plain, monitored = (
            report.show_seconds(statistics.median(seconds)) for seconds in zip(*own, strict=True)
        )
        ratio = median_ratio(own)
        verdict = at_most({what: [turn.ratio for turn in own]}, factor).verdict.value
        rows.append(
            f"| {what} | {plain} | {monitored} | {ratio:.3f} × | ≤ {factor} × | {verdict} |"
        )
    return [
        f"{PEERS} peers, `SynchronousSGDOptimizer` beside `MonitorGradientNoiseScaleOptimizer`, in "
        f"turns: medians of {len(turns['step'])}, and the median of the turns' ratios. The "
        "gradients are 161 float32 tensors, 97.5 MiB.",
        "",
        "| | plain | monitored | ratio | target | |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def plot(turns: Turns) -> Figure:
    """The ratios, turn by turn, a panel for each target."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, len(TARGETS))
    for axis, (key, (what, factor)) in zip(axes, TARGETS.items(), strict=True):
        ratios = [turn.ratio for turn in turns[key]]
        axis.plot(range(1, 1 + len(ratios)), ratios, "o", label="a turn")
        axis.axhline(median_ratio(turns[key]), label="their median")
        axis.axhline(factor, color="gray", linestyle=":", label="target, at most")
        axis.set(title=what.replace("`", ""), xlabel="turn", ylabel="monitored, times the plain")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


def main() -> None:
    options = report.parser(__doc__, rounds=15).parse_args()
    turns = measured(options.rounds)
    title = "What it costs to measure the gradient noise scale in every step"
    report.write(options.results / "monitoring", title, table(turns), plot(turns))


if __name__ == "__main__":
    main()
