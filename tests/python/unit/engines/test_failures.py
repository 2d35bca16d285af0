"""Which of several failures an engine reports."""

from __future__ import annotations

import pickle

import pytest

from kungfu_tf import errors
from kungfu_tf.engines import attempts, failures, orders
from kungfu_tf.function_launch import channel, child
from kungfu_tf.function_launch.results import Child


def ended(rank: int, code: int | None = 0, *, record: bytes | None = None) -> Child:
    return Child(rank, "10.0.0.1", 1, code, record)


def raised(rank: int, error: Exception) -> Child:
    sent = channel.RAISED + pickle.dumps(tuple(child.failure_of(error)))
    return ended(rank, 1, record=sent)


@pytest.fixture(autouse=True)
def peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_PEERS", "10.0.0.1:7,10.0.0.1:8")
    monkeypatch.setenv("KUNGFU_SELF", "10.0.0.1:7")


def test_an_error_that_names_another_peer_is_a_consequence() -> None:
    of_others = raised(0, errors.UnavailableError("rank 1 (10.0.0.1:8): connection closed"))
    cause, killed = raised(1, ValueError("10.0.0.1")), ended(1, -9)
    assert failures.first([of_others]) is of_others
    assert failures.first([ended(2), of_others, cause]) is cause
    assert failures.first([of_others, killed]) is killed
    assert failures.first([ended(0, None), of_others]) == ended(0, None)
    assert failures.first([ended(0), ended(1)]) is None


def test_an_error_that_names_this_peer_alone_is_a_cause() -> None:
    assert not failures.is_consequence(raised(0, ValueError("rank 0 (10.0.0.1:7): no data")))


def test_a_failed_process_is_started_anew_as_often_as_told() -> None:
    order, seen = orders.new(print, (), None, None), []

    def attempt(order: orders.Order) -> list[Child]:
        seen.append(order.restarts)
        if order.restarts < 2:
            raise errors.PeerFailedError("rank 0 on 10.0.0.1: lost")
        value = channel.RETURNED + pickle.dumps("result")
        return [ended(1, record=value), ended(0, record=channel.RETURNED + pickle.dumps("first"))]

    with pytest.raises(errors.PeerFailedError, match="lost"):
        attempts.run(attempt, order, 1)
    assert attempts.run(attempt, order, 2) == ["first", "result"]
    assert seen == [0, 1, 0, 1, 2]
