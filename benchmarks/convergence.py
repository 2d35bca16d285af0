"""How good four peers' models become on Fashion-MNIST, beside one process's, in equal epochs.

Writes `results/convergence.md` and `results/convergence.png`.

    python benchmarks/convergence.py [--epochs 5]

Each method is trained with small and with large batches, with the same four learning rates and
three seeds. Of the rates the one that is best on validation images counts, and its accuracy on the
test images is shown. That takes hours: runs are kept in build/convergence.txt, and those that stand
there are not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import report
from measure import environment
from systems import ROOT

PROGRAM = Path(__file__).parent / "programs" / "convergence.py"
KEPT = ROOT / "build" / "convergence.txt"
PEERS, SECONDS = 4, 1800
BATCHES = (32, 1024)  # of each process
RATES = (0.01, 0.03, 0.1, 0.3)
SEEDS = (1, 2, 3)
METHODS = {
    "single": "one process",
    "sync": "SynchronousSGDOptimizer",
    "sma": "SynchronousAveragingOptimizer",
    "pair": "PairAveragingOptimizer",
}


class Run(NamedTuple):
    """A training."""

    method: str
    batch: int
    rate: float
    seed: int
    epochs: int


class Accuracy(NamedTuple):
    """Of the model at its end, in percent, and of which commit it was."""

    validation: float
    test: float
    commit: str


class Best(NamedTuple):
    """A method's learning rate, and the test accuracy of its seeds."""

    rate: float
    test: list[float]


def trained(run: Run) -> Accuracy:
    environ = environment(threads=2 if run.method == "single" else 1)
    environ["PYTHONPATH"] += f":{ROOT / 'examples'}"
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-np", str(PEERS)]
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) / "report"
        program = [sys.executable, str(PROGRAM), str(written), *map(str, run)]
        command = program if run.method == "single" else [*launcher, *program]
        subprocess.run(command, env=environ, check=True, timeout=SECONDS, stdout=sys.stderr)
        validation, test = map(float, written.read_text().split())
    return Accuracy(100 * validation, 100 * test, report.commit())


def kept() -> dict[Run, Accuracy]:
    """The runs of earlier calls."""
    found = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else []:
        method, batch, rate, seed, epochs, validation, test, commit = line.split()
        run = Run(method, int(batch), float(rate), int(seed), int(epochs))
        found[run] = Accuracy(float(validation), float(test), commit)
    return found


def best(results: dict[Run, Accuracy], method: str, batch: int, epochs: int) -> Best:
    """By the mean of the seeds on validation images."""

    def of(rate: float) -> list[Accuracy]:
        return [results[Run(method, batch, rate, seed, epochs)] for seed in SEEDS]

    rate = max(RATES, key=lambda rate: statistics.mean(a.validation for a in of(rate)))
    return Best(rate, [accuracy.test for accuracy in of(rate)])


def table(results: dict[Run, Accuracy], epochs: int) -> list[str]:
    """Markdown."""
    lines = [
        "# Convergence on Fashion-MNIST",
        "",
        report.provenance(),
        "",
        f"Test accuracy of a small CNN after {epochs} epochs, {PEERS} peers beside one process; "
        f"mean of {len(SEEDS)} seeds, and their range. Each method has the learning rate of "
        f"{', '.join(map(str, RATES))} that is best on 5,000 validation images. Trained at "
        f"{', '.join(sorted({accuracy.commit for accuracy in results.values()}))}.",
        "",
        "| | " + " | ".join(f"batch {b} per process | rate" for b in BATCHES) + " |",
        "|---" * (1 + 2 * len(BATCHES)) + "|",
    ]
    for method, name in METHODS.items():
        cells = []
        for batch in BATCHES:
            rate, test = best(results, method, batch, epochs)
            cells.append(f"{statistics.mean(test):.2f} % ({min(test):.2f}–{max(test):.2f})")
            cells.append(str(rate))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def plot(results: dict[Run, Accuracy], epochs: int) -> None:
    """Test accuracy by learning rate, a panel for each batch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(BATCHES), figsize=(11, 4.5), layout="constrained")
    for axis, batch in zip(axes, BATCHES, strict=True):
        for method, name in METHODS.items():
            means = [
                statistics.mean(results[Run(method, batch, rate, s, epochs)].test for s in SEEDS)
                for rate in RATES
            ]
            axis.plot(RATES, means, marker="o", label=name)
        axis.set(title=f"batch {batch} per process", xscale="log", xlabel="learning rate")
        axis.set_ylabel("test accuracy, %")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(report.RESULTS / "convergence.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    epochs = parser.parse_args().epochs
    results = {run: accuracy for run, accuracy in kept().items() if run.epochs == epochs}
    for grid in itertools.product(SEEDS, BATCHES, RATES, METHODS):
        seed, batch, rate, method = grid
        run = Run(method, batch, rate, seed, epochs)
        if run not in results:
            results[run] = trained(run)
            KEPT.parent.mkdir(exist_ok=True)
            with KEPT.open("a") as file:
                print(*run, *results[run], file=file)
    report.write("convergence", table(results, epochs))
    plot(results, epochs)


if __name__ == "__main__":
    main()
