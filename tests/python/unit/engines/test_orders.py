"""What an engine's workers are told."""

from __future__ import annotations

import os

import pytest

from kungfu_tf.engines import orders
from kungfu_tf.function_launch import pickling


def test_ranks_go_host_by_host() -> None:
    assert orders.by_host(["b", "a", "b", "c", "a"]) == [0, 2, 1, 4, 3]


def test_a_peer_is_told_its_place() -> None:
    peers = ("10.0.0.1:7", "10.0.0.1:8", "[::1]:7")
    order = orders.new(print, ["text"], None, {"NAME": "value"})._replace(peers=peers)
    told = orders.variables_of_peer(order.again(2), 1)
    expected = {
        "KUNGFU_SELF": "10.0.0.1:8",
        "KUNGFU_PEERS": ",".join(peers),
        "KUNGFU_RESTARTS": "2",
        "RANK": "1",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NAME": "value",
    }
    assert {name: told[name] for name in expected} == expected
    assert pickling.load_call(memoryview(order.call)) == (print, ("text",), {})


def test_only_settings_of_users_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KUNGFU_")]:
        monkeypatch.delenv(name)
    for name in ("KUNGFU_STRATEGY", "KUNGFU_SELF", "KUNGFU_SECRET", "KUNGFU_RUNNER", "HOME"):
        monkeypatch.setenv(name, "x")
    assert dict(orders.new(print, (), None, None).environ) == {"KUNGFU_STRATEGY": "x"}


def test_a_new_start_is_a_job_of_its_own() -> None:
    order = orders.new(print, (), None, None)
    assert order.again(0).job != order.again(1).job


def test_the_grace_is_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_GRACE", "7")
    order, other = (orders.new(print, (), None, env) for env in ({}, {"KUNGFU_GRACE": "8"}))
    monkeypatch.setenv("KUNGFU_GRACE", "9")  # of the worker's host
    assert (order.grace, other.grace) == (7, 8)


def test_the_secret_is_not_shown() -> None:
    order = orders.new(print, ("a text",), None, {"TOKEN": "a token"}).again(1)
    shown = f"{order} {order!r}"
    assert order.job in shown
    assert not any(text in shown for text in (order.secret, "a text", "a token"))
