"""When a runner lets peers make their connections anew."""

from __future__ import annotations

import dataclasses
import math
import signal

import pytest

from kungfu_tf.launcher.deciding import repair
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.membership import Actions, Membership
from kungfu_tf.launcher.deciding.repair import Repair
from tests import waiting
from tests.python.launcher.runners import leader_of

SURVIVE = Rules(least=1)
PEERS = "127.0.0.1:10000 127.0.0.1:10001 127.0.0.1:10002"


def later(leader: Leader) -> None:
    """Whatever is due takes place."""

    def is_over() -> bool:
        leader.advance()
        return leader.due == math.inf

    waiting.until(is_over, lambda: f"nothing is due at {leader.due}")


def test_peers_that_live_make_their_connections_anew() -> None:
    leader, hands = leader_of(3, SURVIVE)
    leader.broken(1, 0)
    leader.broken(0, 0)  # the other end
    assert hands.take() == []
    later(leader)
    renew, publish = hands.take()
    assert renew == "renew 1 to [0, 1, 2]"
    assert publish.startswith(f"publish 1 0 {PEERS} to [0, 1, 2]: connections between peers broke")
    for rank in range(3):
        leader.entered(rank, 1)
    leader.broken(0, 0)  # of the version before
    later(leader)
    assert hands.take() == []


def test_a_peer_that_has_died_is_lost_and_nothing_else_happens() -> None:
    leader, hands = leader_of(3, SURVIVE)
    leader.broken(0, 0)
    leader.ended(2, -signal.SIGKILL, stopped=False)
    later(leader)
    assert [line.split()[0] for line in hands.take()] == ["publish", "forgive"]


def test_who_has_finished_is_not_missed() -> None:
    leader, hands = leader_of(3, SURVIVE)
    leader.broken(0, 0)
    leader.ended(2, 0, stopped=False)
    later(leader)
    assert hands.take() == ["finished 127.0.0.1:10002"]


def test_a_job_that_survives_nothing_repairs_nothing() -> None:
    leader, hands = leader_of(3, Rules())
    leader.broken(0, 0)
    later(leader)
    assert hands.take() == []


def test_what_breaks_again_and_again_waits_longer_and_then_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repair, "_QUIET", math.inf)
    nothing = Actions(**{f.name: lambda *_: None for f in dataclasses.fields(Actions)})
    membership = Membership([0, 1], 2, nothing)
    one, waits = Repair(), []
    for _ in range(10):
        one.begin(membership)
        waits.append(one.due - one.since)
        if one.due < math.inf:
            assert one.end(membership, {0, 1})
    assert waits[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2], abs=1e-3)
    assert waits[6:] == [math.inf] * 4
