"""How good models become by parameter servers, beside S-SGD, each at its own best rate; and why."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "accuracy.py"
PEERS, SECONDS = 4, 800
STEPS = 832  # two epochs
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
METHODS = {"sync": "S-SGD", "served3": "staleness 3", "served": "no bound"}
TASKS = {"images-plain": "no momentum", "images": "momentum 0.9"}
DELAYS = (0, 1, 3, 6, 12)
MOMENTA = (0.0, 0.9)


class Accuracy(NamedTuple):
    """Of a model at its end, in percent."""

    validation: float
    test: float


Accuracies = dict[tuple[str, str, float], list[Accuracy]]  # by task, method and rate, of each seed


def measured(seeds: int) -> Accuracies:
    """All trainings, those of a task and a method in the same processes."""
    found: Accuracies = {}
    pairs = [f"{seed}:{rate}" for rate in RATES for seed in range(1, seeds + 1)]
    for task, method in itertools.product(TASKS, METHODS):
        told = reported(
            *(PROGRAM, task, STEPS, *(f"{method}:{pair}" for pair in pairs)),
            options=["-np", str(PEERS), "-q"],
            seconds=SECONDS,
        )
        for line in map(json.loads, told):
            accuracy = Accuracy(line["validation"], line["test"])
            found.setdefault((task, method, line["rate"]), []).append(accuracy)
        print(task, method, told, file=sys.stderr, flush=True)
    return found


def best(accuracies: Accuracies, task: str, method: str) -> float:
    """The rate that is best by the mean of the seeds on validation images."""

    def on_validation(rate: float) -> float:
        return statistics.mean(one.validation for one in accuracies[task, method, rate])

    return max(RATES, key=on_validation)


def best_table(accuracies: Accuracies) -> Iterator[str]:
    """Markdown."""
    yield "| accuracy, % | " + " | ".join(f"{title} | rate" for title in TASKS.values()) + " |"
    yield "|---" * (1 + 2 * len(TASKS)) + "|"
    for method, title in METHODS.items():
        cells = []
        for task in TASKS:
            rate = best(accuracies, task, method)
            tests = [one.test for one in accuracies[task, method, rate]]
            cells += [report.show_mean(tests, ".1f"), f"{rate:g}{_edge(rate)}"]
        yield f"| {title} | {' | '.join(cells)} |"


def rates_table(accuracies: Accuracies, task: str) -> Iterator[str]:
    """Markdown: the accuracy at each rate."""
    yield f"| {TASKS[task]} | " + " | ".join(f"{rate:g}" for rate in RATES) + " |"
    yield "|---" * (1 + len(RATES)) + "|"
    for method, title in METHODS.items():
        of_rates = [accuracies[task, method, rate] for rate in RATES]
        means = (statistics.mean(one.test for one in of_rate) for of_rate in of_rates)
        yield f"| {title} | {' | '.join(f'{mean:.1f}' for mean in means)} |"


def limits_table() -> Iterator[str]:
    """Markdown: what a delay does to the rates that may be taken."""
    yield f"| updates between | {' | '.join(map(str, DELAYS))} |"
    yield "|---" * (1 + len(DELAYS)) + "|"
    for momentum in MOMENTA:
        limits = (f"{largest_rate(delay, momentum):.3g}" for delay in DELAYS)
        yield f"| momentum {momentum:g} | {' | '.join(limits)} |"


def largest_rate(delay: int, momentum: float) -> float:
    """The rate, times the curvature h, from which on SGD on a parabola does not converge.

    ```
    m ← μ·m − rate·h·x(t − delay)
    x(t + 1) ← x(t) + m
    ```

    It converges while the roots of z^delay·(z − 1)·(z − μ) + rate·h·z are within the unit circle.

    Args:
        delay: The updates between the weights of a gradient and its own update.
        momentum: μ.
    """
    free = np.polymul([1.0, -1 - momentum, momentum], [1.0, *[0.0] * delay])

    def converges(rate: float) -> bool:
        return bool(np.abs(np.roots(np.polyadd(free, [rate, 0.0]))).max() < 1)

    low, high = 0.0, 4.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if converges(middle) else (low, middle)
    return low


def section(accuracies: Accuracies) -> Iterator[str]:
    """Markdown."""
    seeds = len(next(iter(accuracies.values())))
    yield from ("## Accuracy", "")
    yield (
        f"Fashion-MNIST, one hidden layer: {PEERS} peers, {STEPS} steps of 32 images for each, "
        "which are two epochs; a rate that falls along a cosine. Each method has that rate which "
        f"is best on validation images; seeds: {seeds}."
    )
    yield from ("", *best_table(accuracies), "", "The means by rate:", "")
    for task in TASKS:
        yield from (*rates_table(accuracies, task), "")
    yield (
        "The rates are so different because other updates are made between the weights of a "
        "gradient and its own update. On a parabola SGD converges while the rate, times the "
        "curvature, is below:"
    )
    yield from ("", *limits_table())


def _edge(rate: float) -> str:
    return " (edge)" if rate in report.ends(RATES) else ""
