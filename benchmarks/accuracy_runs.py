"""The trainings of `accuracy.py`: what they are, what they came to, and which rate is best."""

from __future__ import annotations

import itertools
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "accuracy.py"
PEERS, SECONDS = 4, 800
OF_A_JOB = 24  # trainings, which are kept when all are done
ALONE, PLAIN = "alone", "sync"
METHODS = {
    ALONE: "one peer",
    PLAIN: "S-SGD",
    "bfloat16": "S-SGD, bfloat16",
    "int8": "S-SGD, Int8",
    "int4": "S-SGD, Int4",
    "int4-feedback": "S-SGD, Int4 with feedback",
    "power": "S-SGD, PowerSGD 4",
    "top": "S-SGD, TopK 1 %",
    "local10": "LocalSGD 10",
    "local50": "LocalSGD 50",
    "diloco10": "DiLoCo 10",
    "diloco20": "DiLoCo 20",
    "diloco50": "DiLoCo 50",
    "diloco10-1.0-0.5n": "DiLoCo 10, outer 1 / 0.5",
    "diloco20-1.0-0.5n": "DiLoCo 20, outer 1 / 0.5",
    "diloco50-1.0-0.5n": "DiLoCo 50, outer 1 / 0.5",
    "diloco50-int8": "DiLoCo 50, Int8",
    "diloco50-int4": "DiLoCo 50, Int4",
    "decentralized": "one neighbour (base graph)",
    "pair": "PairAveraging",
    "sma": "SynchronousAveraging",
}


class Task(NamedTuple):
    """What is learned.

    Attributes:
        title: A heading.
        text: How it is trained.
        score: What tells how good a model is, and its unit.
        sign: 1 if more of it is better, or -1.
        digits: Of it, behind the point.
        rates: Of which each method has the one that is best for it.
    """

    title: str
    text: str
    score: str
    sign: int
    digits: int
    rates: tuple[float, ...]


TASKS = {
    "images": Task(
        "Fashion-MNIST",
        "One hidden layer, 50,890 weights; SGD with momentum 0.9, 32 images for each peer and "
        "step. Of 60,000 images 53,248 are trained with, and 6,752 choose the rate.",
        "accuracy, %",
        1,
        2,
        (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4),
    ),
    "novels": Task(
        "Jane Austen's novels",
        "The next of 38 characters from the 8 before; one hidden layer, 19,374 weights; Adam, 64 "
        "characters for each peer and step. Eight tenths of the text are trained with, blocks of "
        "1,000 characters; a tenth chooses the rate.",
        "loss, nats",
        -1,
        3,
        (0.004, 0.008, 0.016, 0.032, 0.064),
    ),
}


class Run(NamedTuple):
    """A training."""

    task: str
    method: str
    steps: int
    seed: int
    rate: float


class Result(NamedTuple):
    """What it came to.

    Attributes:
        validation: The score that chooses the rate.
        test: The score.
        sent: Bytes of a peer and step.
        commit: Of what was trained.
    """

    validation: float
    test: float
    sent: float
    commit: str


class Best(NamedTuple):
    """A method at its best rate.

    Attributes:
        rate: It.
        validation: The mean of the seeds' scores that have chosen it.
        test: The scores of the seeds.
        sent: Bytes of a peer and step.
    """

    rate: float
    validation: float
    test: list[float]
    sent: float


Results = dict[Run, Result]
Table = dict[str, Best]  # by method: those of which all is trained


def runs_of(task: str, method: str, steps: int, seeds: int) -> list[Run]:
    """Of a method, the seeds of a rate one after the other."""
    pairs = itertools.product(TASKS[task].rates, range(1, seeds + 1))
    return [Run(task, method, steps, seed, rate) for rate, seed in pairs]


def train_missing(results: Results, path: Path, runs: Sequence[Run]) -> None:
    """Trains what is not among the results, and keeps it.

    Args:
        results: To which it is added.
        path: Of `keep`.
        runs: Of one task, with as many steps each.
    """
    missing = [run for run in runs if run not in results]
    for first in range(0, len(missing), OF_A_JOB):
        done = trained(missing[first : first + OF_A_JOB])
        keep(path, done)
        results |= done


def trained(runs: Sequence[Run]) -> Results:
    """One after the other in the same processes."""
    os.environ["KUNGFU_TRANSPORT"] = "tcp"  # over sockets, whose bytes the core counts
    named = [f"{run.method}:{run.seed}:{run.rate}" for run in runs]
    options = ["-np", str(PEERS), "-q"]
    lines = reported(
        *(PROGRAM, runs[0].task, runs[0].steps, *named), options=options, seconds=SECONDS
    )
    results = {}
    for run, line in zip(runs, map(json.loads, lines), strict=True):
        scores = line["validation"], line["test"], line["sent"]
        results[run] = Result(*scores, report.commit())
    return results


def kept(path: Path) -> Results:
    """The trainings of earlier calls."""
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (json.loads(line) for line in lines)
    return {Run(*run): Result(*result) for run, result in pairs}


def show_rate(task: str, rate: float) -> str:
    """With a mark if it is at the edge of those that were tried."""
    return f"{rate:g}{' (edge)' if rate in report.ends(TASKS[task].rates) else ''}"


def keep(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for pair in results.items():
            print(json.dumps(pair), file=file)


def best(results: Results, task: str, method: str, steps: int, seeds: int) -> Best | None:
    """By the mean of the seeds on what chooses the rate; None if not all is trained."""
    runs = runs_of(task, method, steps, seeds)
    if any(run not in results for run in runs):
        return None
    by_rate = {
        rate: [results[run] for run in runs if run.rate == rate] for rate in TASKS[task].rates
    }
    means = {rate: statistics.mean(r.validation for r in of) for rate, of in by_rate.items()}
    rate = max(means, key=lambda rate: TASKS[task].sign * means[rate])
    chosen = by_rate[rate]
    tests, sent = [r.test for r in chosen], statistics.mean(r.sent for r in chosen)
    return Best(rate, means[rate], tests, sent)


def table_of(
    results: Results, task: str, steps: int, seeds: int, methods: Iterable[str] = METHODS
) -> Table:
    """The methods of which all is trained."""
    pairs = {method: best(results, task, method, steps, seeds) for method in methods}
    return {method: found for method, found in pairs.items() if found is not None}


def gained(task: str, one: Best, other: Best) -> float:
    """How much better one is than another, by the means of the seeds."""
    return TASKS[task].sign * (statistics.mean(one.test) - statistics.mean(other.test))


def recovered(task: str, table: Table, method: str) -> float | None:
    """The part that a method has of what lies between one peer and S-SGD."""
    if not {ALONE, PLAIN} <= table.keys():
        return None
    whole = gained(task, table[PLAIN], table[ALONE])
    return gained(task, table[method], table[ALONE]) / whole
