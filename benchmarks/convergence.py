"""How good four peers' models become on Fashion-MNIST, beside one process's, in equal epochs.

Writes `results/convergence.md` and `results/convergence.png`.

    python benchmarks/convergence.py [--results DIR]

Each method is trained with small and with large batches, with four learning rates and three
seeds. Of the rates the one that is best on validation images counts, and its accuracy on the test
images is shown. That takes a quarter of an hour to an hour on two cores: trainings are kept in
results/convergence.txt, and those that stand there are not repeated: remove it to train anew.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "convergence.py"
PEERS, SECONDS = 4, 3000
SEEDS = (1, 2, 3)


class Column(NamedTuple):
    """Trainings that are compared with each other."""

    batch: int  # of each peer
    epochs: int
    rates: tuple[float, ...]


class Method(NamedTuple):
    """A way to train."""

    title: str
    program: str
    processes: int
    batches: int = 1  # that a process has for one


COLUMNS = (
    Column(batch=32, epochs=4, rates=(0.01, 0.03, 0.1, 0.3)),
    Column(batch=1024, epochs=10, rates=(0.03, 0.1, 0.3, 1.0)),
)
METHODS = {
    "single": Method("one process, the batch of one peer", "single", 1),
    "joined": Method("one process, the batch of all peers", "single", 1, PEERS),
    "sync": Method("SynchronousSGDOptimizer", "sync", PEERS),
    "sma": Method("SynchronousAveragingOptimizer", "sma", PEERS),
    "pair": Method("PairAveragingOptimizer", "pair", PEERS),
}
AVERAGING = ("sma", "pair")


class Run(NamedTuple):
    """A training."""

    method: str
    batch: int
    epochs: int
    seed: int
    rate: float


class Accuracy(NamedTuple):
    """Of the model at its end, in percent, and of which commit it was."""

    validation: float
    test: float
    commit: str


Results = dict[Run, Accuracy]


class Best(NamedTuple):
    """A method's learning rate, and the test accuracy of its seeds."""

    rate: float
    test: list[float]


def trained(runs: Sequence[Run]) -> Results:
    """One after the other in the same processes. They differ in their rates only."""
    first = runs[0]
    method = METHODS[first.method]
    lines = reported(
        PROGRAM,
        method.program,
        *(method.batches * first.batch, first.seed, first.epochs, *(run.rate for run in runs)),
        options=["-np", str(method.processes)],
        threads=2 if method.processes == 1 else 1,
        seconds=SECONDS,
    )
    results = {}
    for run, line in zip(runs, lines, strict=True):
        validation, test = map(float, line.split())
        results[run] = Accuracy(100 * validation, 100 * test, report.commit())
    return results


def kept(path: Path) -> Results:
    """The trainings of earlier calls."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        method, batch, epochs, seed, rate, validation, test, commit = line.split()
        run = Run(method, int(batch), int(epochs), int(seed), float(rate))
        found[run] = Accuracy(float(validation), float(test), commit)
    return found


def keep(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for run, accuracy in results.items():
            print(*run, *accuracy, file=file)


def of_seeds(results: Results, method: str, column: Column, rate: float) -> list[Accuracy]:
    runs = [Run(method, column.batch, column.epochs, seed, rate) for seed in SEEDS]
    return [results[run] for run in runs]


def best(results: Results, method: str, column: Column) -> Best:
    """By the mean of the seeds on validation images."""
    by_rate = {rate: of_seeds(results, method, column, rate) for rate in column.rates}
    rate = max(by_rate, key=lambda rate: statistics.mean(a.validation for a in by_rate[rate]))
    return Best(rate, [accuracy.test for accuracy in by_rate[rate]])


def show_rate(rate: float, column: Column) -> str:
    return f"{rate:g}" + (" (edge)" if rate in report.ends(column.rates) else "")


def accuracies(results: Results) -> list[str]:
    """Markdown."""
    heads = [f"batch {c.batch}, {c.epochs} epochs | rate" for c in COLUMNS]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (1 + 2 * len(COLUMNS)) + "|"]
    for name, method in METHODS.items():
        cells = []
        for column in COLUMNS:
            rate, test = best(results, name, column)
            cells += [report.show_mean(test, ".2f"), show_rate(rate, column)]
        lines.append(f"| {method.title} | " + " | ".join(cells) + " |")
    return lines


def differences(results: Results, others: str) -> list[str]:
    """Markdown: what each method has more than others, seed by seed."""
    heads = [f"batch {column.batch}" for column in COLUMNS]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
    for name, method in METHODS.items():
        if name == others:
            continue
        cells = []
        for column in COLUMNS:
            pairs = [best(results, m, column).test for m in (name, others)]
            cells.append(report.show_mean([a - b for a, b in zip(*pairs, strict=True)], "+.2f"))
        lines.append(f"| {method.title} | " + " | ".join(cells) + " |")
    return lines


def table(results: Results) -> list[str]:
    """Markdown."""
    return [
        f"{PEERS} peers beside one process: the same small CNN, the same 53,248 images in each "
        "epoch, SGD with momentum 0.9 and a learning rate that falls along a cosine, epoch by "
        "epoch. The batch is that of each process. Each method begins with that rate of four which "
        f"is best by the mean of {len(SEEDS)} seeds on 6,752 validation images; beside it stands "
        f"whether it is at the edge of what was tried: {show_grids()}. What the averaging "
        "optimizers have of their own is at its default. Trained at "
        f"{', '.join(sorted({accuracy.commit for accuracy in results.values()}))}.",
        "",
        f"Test accuracy in percent, mean of {len(SEEDS)} seeds, and their range:",
        "",
        *accuracies(results),
        "",
        f"One process with the batch of one peer makes {PEERS} times as many updates as the "
        "others; with the batch of all peers, it does what S-SGD does.",
        "",
        "Points more than one process with the batch of one peer, seed by seed:",
        "",
        *differences(results, "single"),
        "",
        "Points more than SynchronousSGDOptimizer, seed by seed:",
        "",
        *differences(results, "sync"),
        "",
        *verdict(results),
    ]


def show_grids() -> str:
    grids = (", ".join(f"{rate:g}" for rate in column.rates) for column in COLUMNS)
    return "; ".join(f"{c.batch}: {grid}" for c, grid in zip(COLUMNS, grids, strict=True))


def verdict(results: Results) -> list[str]:
    """Markdown: whether averaging models holds what S-SGD loses with large batches."""
    small, large = COLUMNS
    lines = [
        f"- {METHODS[name].title}: with small batches "
        f"{'within a point of' if lost(results, name, small) <= 1 else 'below'} one process; with "
        f"large ones {lost(results, name, large):.2f} points below."
        for name in ("sync", *AVERAGING)
    ]
    most = lost(results, "sync", large)
    won = {name: most - lost(results, name, large) for name in AVERAGING}
    holds = [METHODS[name].title for name in AVERAGING if lost(results, name, large) <= 1]
    return [
        *lines,
        "",
        "KungFu's claim that averaging models holds what S-SGD loses with large batches "
        + (f"is borne out by {' and '.join(holds)}" if holds else "is not borne out here")
        + f": of {most:.2f} points "
        + " and ".join(f"{METHODS[name].title} wins back {won[name]:.2f}" for name in AVERAGING)
        + ".",
    ]


def lost(results: Results, method: str, column: Column) -> float:
    """Points below one process with the batch of one peer, by the means of the seeds."""
    tests = [best(results, name, column).test for name in ("single", method)]
    return statistics.mean(tests[0]) - statistics.mean(tests[1])


def plot(results: Results) -> Figure:
    """Test accuracy by learning rate, a panel for each batch."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots(1, len(COLUMNS))
    for axis, column in zip(axes, COLUMNS, strict=True):
        for name, method in METHODS.items():
            tests = [[a.test for a in of_seeds(results, name, column, r)] for r in column.rates]
            means = list(map(statistics.mean, tests))
            axis.plot(column.rates, means, marker="o", label=method.title)
            ends = zip(*map(report.ends, tests), strict=True)
            axis.fill_between(column.rates, *ends, alpha=0.15)
        axis.set(title=f"batch {column.batch} per process, {column.epochs} epochs")
        axis.set(xscale="log", xlabel="learning rate", ylabel="test accuracy, %")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


def main() -> None:
    options = report.parser(__doc__).parse_args()
    path = options.results / "convergence.txt"
    results = kept(path)
    for seed, column, method in itertools.product(SEEDS, COLUMNS, METHODS):
        runs = [Run(method, column.batch, column.epochs, seed, rate) for rate in column.rates]
        if missing := [run for run in runs if run not in results]:
            done = trained(missing)
            keep(path, done)
            results |= done
    title = "Convergence on Fashion-MNIST"
    report.write(options.results / "convergence", title, table(results), plot(results))


if __name__ == "__main__":
    main()
