"""Ray and Spark start the peers of a job, and train as kungfu-run does."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sessions import (
    PROGRAM,
    SHARED,
    SLOTS,
    Engine,
    ray_session,
    spark_session,
    trained_by_kungfu_run,
    wait_until_nothing_is_left,
    written,
)

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module", params=[ray_session, spark_session], ids=["ray", "spark"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with request.param() as session:
        yield session


@pytest.fixture
def mark() -> dict[str, str]:
    """A variable by which the processes of a test are found."""
    return {"MARK_OF_A_TEST": secrets.token_hex(8)}


def test_results_come_by_rank(engine: Engine) -> None:
    offset = 40

    def fn(first, second):
        place = kf.rank(), kf.size(), kf.local_rank(), kf.local_size()
        return place, kf.all_reduce_int_max(offset + kf.rank()), first, second

    told = engine.run(fn, 3, args=["a"], kwargs={"second": "b"})
    assert told == [((rank, 3, rank, 3), 42, "a", "b") for rank in range(3)]


def test_fit_gives_the_bits_of_kungfu_run(engine: Engine, tmp_path: Path) -> None:
    def fn(directory):
        import runpy

        sys.path.insert(0, str(SHARED))
        sys.argv[1:] = [directory]
        runpy.run_path(str(PROGRAM), run_name="__main__")

    folder = tmp_path / "engine"
    folder.mkdir()
    engine.run(fn, 2, args=[str(folder)])
    assert written(folder) == trained_by_kungfu_run(tmp_path / "kungfu-run")
    assert written(folder)[0].startswith("(0, 2, 0, 2, 0) ")


def test_a_function_that_raises_ends_the_job(engine: Engine, mark: dict[str, str]) -> None:
    def fn():
        kf.barrier()
        if kf.rank() == 1:
            raise ZeroDivisionError("on purpose")
        kf.barrier(name="never")

    with pytest.raises(kf.errors.PeerFailedError, match=r"^rank 1 on \S+ \(pid \d+\): ") as caught:
        engine.run(fn, 3, env=mark)
    assert str(caught.value).rstrip().endswith("ZeroDivisionError: on purpose")
    assert ", in fn\n" in str(caught.value)
    assert "kungfu_tf/function_launch" not in str(caught.value)
    assert caught.value.rank == 1
    if engine.name == "ray":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    wait_until_nothing_is_left(engine, mark)


@pytest.mark.parametrize("who", ["child", "worker"])
def test_a_process_that_is_killed_ends_the_job(
    who: str, engine: Engine, mark: dict[str, str]
) -> None:
    def fn():
        kf.barrier()
        if kf.rank() == 1:
            os.kill(os.getpid() if who == "child" else os.getppid(), signal.SIGKILL)
        signal.pause()

    how = {"child": "killed by SIGKILL", "worker": "lost"}[who]
    with pytest.raises(kf.errors.PeerFailedError, match=f"^rank 1 on .*: {how}") as caught:
        engine.run(fn, 3, env=mark)
    assert caught.value.rank == 1
    wait_until_nothing_is_left(engine, mark)


def test_there_must_be_room(engine: Engine) -> None:
    with pytest.raises(
        kf.errors.ResourceExhaustedError, match=f"{SLOTS + 1} (work|proc)"
    ) as caught:
        engine.run(os.getpid, SLOTS + 1, start_timeout=3)
    assert f" {SLOTS}" in str(caught.value)
    wait_until_nothing_is_left(engine, {"none": ""})


def test_a_timeout_ends_the_job(engine: Engine, mark: dict[str, str]) -> None:
    def fn():
        if kf.rank() == 1:
            time.sleep(600)

    with pytest.raises(kf.errors.DeadlineExceededError, match="timeout of 15 s is over"):
        engine.run(fn, 2, env=mark, timeout=15)
    wait_until_nothing_is_left(engine, mark)


def test_a_job_is_started_anew(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    def fn():
        kf.barrier()
        if os.environ["KUNGFU_RESTARTS"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        kf.barrier()
        return os.environ["KUNGFU_RESTARTS"]

    assert engine.run(fn, 2, restarts=1) == ["1", "1"]
    assert "starting all anew, 1 of at most 1 times" in capfd.readouterr().err


def test_settings_and_variables_go_along(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_COLLECTIVE_TIMEOUT", "77")
    names = ("KUNGFU_COLLECTIVE_TIMEOUT", "A_VARIABLE", "RANK", "WORLD_SIZE", "LOCAL_RANK")

    def fn():
        return [os.environ[name] for name in names]

    told = engine.run(fn, 2, env={"A_VARIABLE": "a text"})
    assert told == [["77", "a text", str(rank), "2", str(rank)] for rank in range(2)]


def test_what_an_engine_counts_a_process_gets(engine: Engine) -> None:
    """On Ray a GPU; on Spark as many processes as it has slots."""
    options = {"resources": {"CPU": 1, "GPU": 1}} if engine.name == "ray" else {}
    size = 2 if engine.name == "ray" else None

    def fn():
        return kf.size(), os.environ.get("CUDA_VISIBLE_DEVICES")

    told = engine.run(fn, size, **options)
    if engine.name == "ray":
        assert sorted(told) == [(2, "0"), (2, "1")]
    else:
        assert told == SLOTS * [(SLOTS, "0,1")]


def test_what_cannot_be_sent_is_named(engine: Engine) -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(kf.errors.InvalidArgumentError, match=r"uses 'lock', a _thread\.lock"):
        engine.run(lambda: lock, 1)


def test_trials_are_independent_and_come_in_order(engine: Engine, mark: dict[str, str]) -> None:
    def fn(x, y=0):
        assert x != 3, "on purpose"
        return kf.rank(), kf.size(), x, y, os.environ["MARK_OF_A_TEST"]

    grid = [{"x": 5}, {"x": 2, "y": 1}, {"x": 3}, {"x": 1}, {"x": 4}, {"x": 0}]
    told = engine.trials(fn, grid, env=mark, return_errors=True)
    text = mark["MARK_OF_A_TEST"]
    assert [*told[:2], *told[3:]] == [
        *((0, 1, 5, 0, text), (0, 1, 2, 1, text)),
        *((0, 1, x, 0, text) for x in (1, 4, 0)),
    ]
    assert str(told[2]).startswith("trial x=3: rank 0 on ")
    assert isinstance(told[2].__cause__, AssertionError)
    with pytest.raises(kf.errors.PeerFailedError, match="AssertionError: on purpose"):
        engine.trials(fn, grid[2:4], env=mark)
    assert engine.trials(fn, []) == []
    wait_until_nothing_is_left(engine, mark)


def test_trials_end_in_time(engine: Engine, mark: dict[str, str]) -> None:
    with pytest.raises(kf.errors.DeadlineExceededError, match="timeout of 8 s is over"):
        engine.trials(lambda x: time.sleep(600), [{"x": 1}, {"x": 2}], env=mark, timeout=8)
    wait_until_nothing_is_left(engine, mark)
