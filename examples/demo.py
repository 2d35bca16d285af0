"""`make demo`: the same model trained by one process and by four, on the same number of samples.

Prints how well and how fast, and proves what data-parallel training promises: each sample is used
once per epoch, and all peers end with the same weights. Exits with 1 if that is not so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import fashion_mnist

PEERS = 4
BATCH = 128
SECONDS_PER_RUN = 1200


@dataclass(frozen=True)
class Run:
    """What demo_train.py has reported."""

    accuracy: float
    epochs: list[dict[str, float]]
    digests: list[str]

    @property
    def points(self) -> float:
        return 100 * self.accuracy

    @property
    def samples(self) -> int:
        return int(sum(epoch["samples"] for epoch in self.epochs))

    @property
    def distinct(self) -> set[int]:
        return {int(epoch["distinct"]) for epoch in self.epochs}

    @property
    def samples_per_second(self) -> float:
        """Without the first epoch, in which TensorFlow traces and warms up."""
        rest = self.epochs[1:]
        return sum(epoch["samples"] for epoch in rest) / sum(epoch["seconds"] for epoch in rest)


def epochs_for(samples: int) -> int:
    """Few of Fashion-MNIST's; of the small digits so many that the accuracy has settled."""
    return 5 if samples >= 10_000 else 100


def train(peers: int, directory: Path, epochs: int) -> Run:
    launcher = ["-m", "kungfu_tf.launcher", "-np", str(peers), sys.executable] if peers > 1 else []
    program = [str(Path(__file__).with_name("demo_train.py")), "--epochs", str(epochs)]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        subprocess.run(
            [sys.executable, *launcher, *program, "--batch", str(BATCH), "--report", str(report)],
            env={**os.environ, "FASHION_MNIST_DIR": str(directory)},
            timeout=SECONDS_PER_RUN,
            check=True,
        )
        return Run(**json.loads(report.read_text()))


def table(one: Run, many: Run) -> str:
    rows = [
        ("", "1 process", f"{PEERS} processes"),
        ("test accuracy", *(f"{run.points:.2f} %" for run in (one, many))),
        ("samples trained", *(f"{run.samples:,}" for run in (one, many))),
        ("distinct samples per epoch", *(_or(run.distinct) for run in (one, many))),
        ("samples per second", *(f"{run.samples_per_second:,.0f}" for run in (one, many))),
    ]
    rows += [
        (f"digest of the weights, rank {rank}", one.digests[0] if rank == 0 else "", digest)
        for rank, digest in enumerate(many.digests)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}   {left:>{widths[1]}}   {right:>{widths[2]}}"
        for name, left, right in rows
    ]
    rule = "─" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:], rule])


def _or(numbers: set[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))


def broken_promises(one: Run, many: Run, samples: int, tests: int) -> list[str]:
    found = []
    allowed = max(1.0, 500 / tests)  # a point; of a small test set, five images
    if abs(one.points - many.points) > allowed:
        found.append(f"the accuracies are more than {allowed:.1f} points apart")
    if one.samples != many.samples:
        found.append("the numbers of samples differ")
    if one.distinct != {samples} or many.distinct != {samples}:
        found.append(f"not each of the {samples:,} samples was used in every epoch")
    if len(many.digests) != PEERS or len(set(many.digests)) != 1:
        found.append("the peers' weights differ")
    return found


def main() -> int:
    data = fashion_mnist.load()
    samples = len(data.train_images)
    epochs = epochs_for(samples)
    cores = len(os.sched_getaffinity(0))
    print(f"Data: {samples:,} images from {data.directory}")
    print(f"\n== 1 process on {cores} cores, {epochs} epochs, batches of {BATCH}", flush=True)
    one = train(1, data.directory, epochs)
    share = BATCH // PEERS
    print(f"\n== {PEERS} processes on {cores} cores, batches of {PEERS} × {share}", flush=True)
    many = train(PEERS, data.directory, epochs)

    print(f"\n{table(one, many)}")
    promises = broken_promises(one, many, samples, len(data.test_images))
    for promise in promises:
        print(f"NOT SO: {promise}")
    if not promises:
        apart = abs(one.points - many.points)
        print(f"Accuracies {apart:.2f} points apart; all {PEERS} peers hold the same weights.")
    return 1 if promises else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
        sys.exit(f"demo: {failed}")
