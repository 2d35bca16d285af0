"""What accuracy.py makes of trainings: made-up ones, whose figures are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import accuracy
import accuracy_runs
import outers
from accuracy_runs import Result, Results, Run

TASK, STEPS, SEEDS = "images", 10, 2
BEST = accuracy_runs.TASKS[TASK].rates[2]


def results(**scores: float) -> Results:
    """At `BEST` a method has this score, and elsewhere a better one that validation denies."""
    found = {}
    for method, score in scores.items():
        for run in accuracy_runs.runs_of(TASK, method, STEPS, SEEDS):
            is_best = run.rate == BEST
            test = score + run.seed if is_best else 99.0
            found[run] = Result(50.0 if is_best else 40.0, test, 1024.0, "commit")
    return found


def test_validation_chooses_the_rate() -> None:
    table = accuracy_runs.table_of(results(sync=80.0), TASK, STEPS, SEEDS)
    assert table["sync"] == accuracy_runs.Best(BEST, 50.0, [81.0, 82.0], 1024.0)


def test_a_method_that_is_not_trained_wholly_is_no_row() -> None:
    found = results(sync=80.0, alone=70.0)
    del found[next(run for run in found if run.method == "alone")]
    assert accuracy_runs.table_of(found, TASK, STEPS, SEEDS).keys() == {"sync"}


def test_what_diverges_is_not_the_best() -> None:
    found = {
        run: Result(math.inf if run.rate > BEST else 2 - run.rate, 2.0, 0.0, "commit")
        for run in accuracy_runs.runs_of("novels", "sync", STEPS, SEEDS)
    }
    rates = [rate for rate in accuracy_runs.TASKS["novels"].rates if rate <= BEST]
    assert accuracy_runs.table_of(found, "novels", STEPS, SEEDS)["sync"].rate == max(rates)


def test_rows_and_targets() -> None:
    found = results(alone=70.0, sync=80.0, local10=75.5, diloco50=76.0, power=79.8, int8=79.0)
    tables = {
        task: accuracy_runs.table_of(found if task == TASK else {}, task, STEPS, SEEDS)
        for task in accuracy_runs.TASKS
    }
    text = "\n".join(accuracy.body(found, tables, STEPS, SEEDS))
    assert "| LocalSGD 10 | 77.00 (76.50 to 77.50) | -4.50 | 55 % | 1 | 0.05 |" in text
    assert "| LocalSGD 10, Fashion-MNIST | 55 % recovered | at least 60 % | missed |" in text
    assert "| DiLoCo 50, Fashion-MNIST | 60 % recovered | at least 35 % | reached |" in text
    assert (
        "| S-SGD, PowerSGD 4, Fashion-MNIST | +0.20 worse | at most 0.3 than S-SGD | reached"
        in text
    )
    assert "| S-SGD, Int8, Fashion-MNIST | +1.00 worse | at most 0.3 than S-SGD | missed" in text
    assert "(1.00): LocalSGD 10 (4.50), DiLoCo 50 (4.00)." in text


def test_outer_optimizers() -> None:
    scores = {"alone": 70.0, "sync": 80.0, "local50": 74.0, "diloco50-0.7-0.5n": 75.0}
    table = accuracy_runs.table_of(results(**scores), TASK, STEPS, SEEDS, scores)
    *_, nesterov, local = outers.rows(TASK, table, 1000)
    assert local == "| 1, momentum 0 | 20 | 50.00 | 75.50 (75.00 to 76.00) | 40 % | 0.05 |"
    assert nesterov.startswith("| 0.7, Nesterov momentum 0.5 | 20 | 50.00 | 76.50 (")


def test_a_job_trains_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many trainings are several jobs, of which each is kept."""
    found, jobs = results(sync=80.0, alone=70.0), []

    def trained(runs: Sequence[Run]) -> Results:
        jobs.append([*runs])
        return {run: found[run] for run in runs}

    monkeypatch.setattr(accuracy_runs, "trained", trained)
    monkeypatch.setattr(accuracy_runs, "OF_A_JOB", 5)
    there = {run: result for run, result in found.items() if run.method == "sync"}
    missing = [run for run in found if run.method == "alone"]
    path = tmp_path / "kept.jsonl"
    accuracy_runs.train_missing(there, path, [*found])
    assert jobs == [missing[:5], missing[5:10], missing[10:]]
    assert there == found
    assert accuracy_runs.kept(path) == {run: found[run] for run in missing}


def test_trainings_are_kept(tmp_path: Path) -> None:
    found = results(sync=80.0)
    accuracy_runs.keep(tmp_path / "kept.jsonl", found)
    assert accuracy_runs.kept(tmp_path / "kept.jsonl") == found
