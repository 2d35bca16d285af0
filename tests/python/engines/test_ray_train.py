"""Workers of Ray Train are the peers of a job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sessions import PROGRAM, SHARED, ray_session, trained_by_kungfu_run, written

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    pytest.importorskip("pydantic", reason="needs ray[train]: make engines")
    with ray_session():
        yield


def train(fn: Callable[[], None], workers: int, folder: Path, *, failures: int = 0) -> None:
    """Runs a function by a trainer of Ray.

    Args:
        fn: The function of each worker.
        workers: Their number.
        folder: For what Ray writes.
        failures: How often Ray may start them anew.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    again = FailureConfig(max_failures=failures)
    DataParallelTrainer(
        fn,
        backend_config=kf.ray.KungfuConfig(),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(storage_path=str(folder), failure_config=again),
    ).fit()


def test_fit_gives_the_bits_of_kungfu_run(tmp_path: Path) -> None:
    folder = tmp_path / "trained"
    folder.mkdir()

    def fn() -> None:
        import runpy
        import sys

        sys.path.insert(0, str(SHARED))
        sys.argv[1:] = [str(folder)]
        runpy.run_path(str(PROGRAM), run_name="__main__")

    train(fn, 2, tmp_path)
    assert written(folder) == trained_by_kungfu_run(tmp_path / "kungfu-run")


def test_a_worker_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the end that is no error: Ray would start the job anew for those of a worker only."""
    import ray

    from kungfu_tf.engines.ray_train import Config

    @ray.remote
    def silent() -> None:
        signal.pause()

    class Workers:
        """One that answers, and one that does not."""

        def execute_async(self, fn: Callable[[], Any]) -> list[Any]:
            return [ray.put("10.0.0.1:10000"), unanswered]

    monkeypatch.setenv("KUNGFU_CONNECT_TIMEOUT", "1")
    unanswered = silent.remote()
    backend = Config().backend_cls()
    text = "after 1 s rank 1 of 2 had not answered"
    try:
        with pytest.raises(kf.errors.DeadlineExceededError, match=text):
            backend.on_start(Workers(), Config())
        backend.on_shutdown(Workers(), Config())
        assert text in capfd.readouterr().err
    finally:
        ray.cancel(unanswered, force=True)


def test_a_worker_that_fails_is_started_anew_with_the_others(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    def fn() -> None:
        (marks / f"{kf.rank()} of {kf.size()}").touch()
        kf.barrier()
        if kf.rank() == 1 and not (marks / "failed").exists():
            (marks / "failed").touch()
            raise ZeroDivisionError("on purpose")
        largest = kf.all_reduce_int_max(kf.rank())
        (marks / f"largest {largest}").touch()

    train(fn, 3, tmp_path, failures=1)
    told = sorted(path.name for path in marks.iterdir())
    assert told == [*(f"{rank} of 3" for rank in range(3)), "failed", "largest 2"]
