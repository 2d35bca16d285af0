"""Jobs of Ray whose peers come, go and are lost while they train."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from elastic_training import check, training
from sessions import SLOTS, Engine, ray_session, wait_until_nothing_is_left

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with ray_session() as session:
        yield session


@pytest.fixture
def mark() -> dict[str, str]:
    """A variable by which the processes of a test are found."""
    return {"MARK_OF_A_TEST": secrets.token_hex(8)}


def test_a_training_grows_and_shrinks(engine: Engine, mark: dict[str, str]) -> None:
    train = training()

    def fn():
        def after_step(model, sizes):
            if sizes == [2, 4, 2]:
                model.stop_training = True
            elif kf.rank() == 0:
                kf.propose_new_size({(2,): 4, (2, 4): 2}[tuple(sizes)])

        return train(after_step)

    told = engine.run(fn, 2, max_np=4, env=mark)
    check(told, 2)
    assert [sizes for _, sizes, *_ in told] == [[2, 4, 2], [2, 4, 2]]
    wait_until_nothing_is_left(engine, mark)


@pytest.mark.parametrize("who", ["child", "worker"])
def test_a_peer_that_is_killed_is_replaced(
    who: str, engine: Engine, mark: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    train = training()

    def fn():
        is_first = not kf.joining()

        def after_step(model, sizes):
            if is_first and kf.rank() == 1:
                os.kill(os.getpid() if who == "child" else os.getppid(), signal.SIGKILL)
                signal.pause()
            elif sizes[-2:] in ([1, 2], [2]) and (len(sizes) > 1 or not is_first):
                model.stop_training = True

        return is_first, train(after_step)

    told = engine.run(fn, 2, min_np=1, env=mark)
    assert [is_first for is_first, _ in told] == [True, False]
    check([one for _, one in told], 2)
    printed = capfd.readouterr().err
    assert "was lost: killed by SIGKILL; the job goes on with 1 peer" in printed
    wait_until_nothing_is_left(engine, mark)


def test_a_job_begins_with_what_there_is_and_grows(engine: Engine, mark: dict[str, str]) -> None:
    import ray

    class Holder:
        def ready(self):
            pass

    options = {"num_cpus": SLOTS - 1, "name": "holder", "namespace": "tests"}
    holder = ray.remote(Holder).options(**options).remote()
    ray.get(holder.ready.remote())
    train = training()

    def fn():
        import ray

        if not kf.joining():
            ray.init()
            ray.kill(ray.get_actor("holder", namespace="tests"))

        def after_step(model, sizes):
            model.stop_training = sizes[-1] == 2

        return train(after_step)

    told = engine.run(fn, 2, min_np=1, env=mark, start_timeout=20)
    check(told, 2)
    assert told[0][1] == [1, 2]
    wait_until_nothing_is_left(engine, mark)


def test_too_few_peers_end_the_job(engine: Engine, mark: dict[str, str]) -> None:
    train = training()

    def fn():
        def after_step(model, sizes):
            if kf.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        return train(after_step)

    with pytest.raises(kf.errors.PeerFailedError, match=r"^rank 1 on .*: killed by SIGKILL"):
        engine.run(fn, 2, min_np=2, env=mark)
    wait_until_nothing_is_left(engine, mark)


def test_an_error_of_the_program_ends_the_job(engine: Engine, mark: dict[str, str]) -> None:
    train = training()

    def fn():
        def after_step(model, sizes):
            if kf.rank() == 1:
                raise ZeroDivisionError("on purpose")

        return train(after_step)

    with pytest.raises(kf.errors.PeerFailedError, match="ZeroDivisionError: on purpose") as caught:
        engine.run(fn, 2, min_np=1, env=mark)
    assert caught.value.rank == 1
    wait_until_nothing_is_left(engine, mark)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_np": 3}, "min_np 3, np 2 and max_np 2 must be in order"),
        ({"max_np": 1}, "min_np 1, np 2 and max_np 1 must be in order"),
        ({"min_np": 0}, "min_np 0, np 2"),
        ({"min_np": 1, "strategy": "STRICT_PACK"}, "strategy 'STRICT_PACK'"),
        ({"max_np": 2, "data": object()}, "data= is dealt once"),
    ],
)
def test_what_an_elastic_job_cannot_have_is_named(
    options: dict[str, Any], said: str, engine: Engine
) -> None:
    with pytest.raises(ValueError, match=f"^ray.run: {said}"):
        engine.run(print, 2, **options)
