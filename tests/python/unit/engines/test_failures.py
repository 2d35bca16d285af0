"""Which of several failures an engine reports."""

from __future__ import annotations

import pickle

import pytest

from kungfu_tf import errors
from kungfu_tf.engines import attempts, failures, orders, trial_grid
from kungfu_tf.function_launch import channel, child, results
from kungfu_tf.function_launch.results import Child


def ended(rank: int, code: int | None = 0, *, record: bytes | None = None) -> Child:
    return Child(rank, "10.0.0.1", 1, code, record)


def well(rank: int, value: object) -> Child:
    return ended(rank, record=channel.RETURNED + pickle.dumps(value))


def raised(rank: int, error: Exception) -> Child:
    sent = channel.RAISED + pickle.dumps(tuple(child.failure_of(error, ["10.0.0.1:8"])))
    return ended(rank, 1, record=sent)


def test_an_error_that_names_another_peer_is_a_consequence() -> None:
    of_others = raised(0, errors.UnavailableError("rank 1 (10.0.0.1:8): connection closed"))
    cause, killed = raised(1, ValueError("10.0.0.1")), ended(1, -9)
    assert failures.first([of_others]) is of_others
    assert failures.first([well(2, 1), of_others, cause]) is cause
    assert failures.first([of_others, killed]) is killed
    assert failures.first([ended(0, None), of_others]) == ended(0, None)
    assert failures.first([well(0, 1), well(1, 2)]) is None


def test_an_error_that_another_rank_has_told_is_a_consequence() -> None:
    """As in `fit`, and to a newcomer, which has begun without knowing the others' addresses."""
    told = "ABORTED: fit was left by ZeroDivisionError: on purpose (told by rank 1)"
    assert failures.is_consequence(raised(0, RuntimeError(told)))


def test_an_error_that_names_this_peer_alone_is_a_cause() -> None:
    assert not failures.is_consequence(raised(0, ValueError("rank 0 (10.0.0.1:7): no data")))


def test_a_failed_process_is_started_anew() -> None:
    order, seen = orders.new(print, (), None, None), []

    def attempt(order: orders.Order) -> list[Child]:
        seen.append(order.restarts)
        if order.restarts < 2:
            raise errors.PeerFailedError("rank 0 on 10.0.0.1: lost")
        return [well(1, "result"), well(0, "first")]

    with pytest.raises(errors.PeerFailedError, match="lost"):
        attempts.run(attempt, order, 1)
    assert attempts.run(attempt, order, 2) == ["first", "result"]
    assert seen == [0, 1, 0, 1, 2]


def test_an_end_without_a_result_is_a_failure() -> None:
    assert failures.has_failed(ended(0))
    assert not failures.has_failed(well(0, "value"))


def test_a_trial_without_a_readable_result_fails_alone() -> None:
    unreadable = ended(0, record=channel.RETURNED + b"no pickle")
    children = [well(0, 2), ended(0), unreadable]
    told = trial_grid.results_of(children, [{"x": 1}, {"x": 2}, {"x": 3}], return_errors=True)
    assert told[0] == 2
    assert str(told[1]).startswith("trial x=2: rank 0 on 10.0.0.1 (pid 1): ")
    assert str(told[2]).startswith("trial x=3: rank 0 on 10.0.0.1 (pid 1): ")
    assert all(isinstance(error, errors.PeerFailedError) for error in told[1:])


def test_a_lost_worker_has_the_reason_of_the_engine_and_a_link() -> None:
    error = results.failed(failures.lost(1, "10.0.0.1", 7, "The actor died.\n\tclass: Peer"))
    first = "rank 1 on 10.0.0.1 (pid 7): lost before its function returned"
    link = "(kungfu_tf docs: messages#engine-lost)"
    assert str(error) == f"{first}\n  | The actor died. {link}"


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_an_error_after_one_that_names_another_peer_is_a_consequence(link: str) -> None:
    error = ValueError("no result")
    setattr(error, link, errors.UnavailableError("rank 1 (10.0.0.1:8): connection closed"))
    assert failures.is_consequence(raised(0, error))
