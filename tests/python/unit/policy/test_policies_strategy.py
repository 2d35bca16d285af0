"""When policies change the ways of all data, of trainings that only say what they see."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import ops, peer
from kungfu_tf.monitor import measurements, statistics
from kungfu_tf.policy.training import Training


def test_the_strategy_changes_where_most_see_interference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which peers see it is no affair of the policy: here it is told."""
    told = iter([False, True, True, True])
    used = "STAR"
    monkeypatch.setattr(statistics, "check_interference", lambda threshold: next(told))
    monkeypatch.setattr(measurements, "strategy", lambda: used)
    policy = kf.policy.InterferenceStrategyPolicy(["RING", "CLIQUE"], interval=5, threshold=0.7)
    training, wanted = Training(), []
    training.last_steps = 2
    for training.step in range(2, 22, 2):
        policy.after_step(training)
        if training.wanted_strategy:
            used = training.wanted_strategy
            wanted.append((training.step, used))
        training.wanted_strategy = None
    assert wanted == [(10, "RING"), (16, "CLIQUE"), (20, "RING")]


@pytest.mark.parametrize(
    ("strategies", "options", "text"),
    [
        ([], {}, "no strategies"),
        (["RING", "SPIRAL"], {}, "a strategy is AUTO or .* not 'SPIRAL'"),
        ("RING", {}, "a list of strategies, not 'RING'"),
        (["RING"], {"interval": 0}, "interval is a number of steps, not 0"),
        (["RING"], {"threshold": 1.0}, "between 0 and 1, not 1.0"),
    ],
)
def test_interference_arguments(strategies: list[str], options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kf.policy.InterferenceStrategyPolicy(strategies, **options)


def test_trees_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="a tree of 2 ranks, of 1 peers"):
        Training().set_tree([0, 0])
    measured = Measured(monkeypatch)
    for tree in ([0, 1, 1], [1, 0, 0], [0, 2, 1], [3, 0, 2], [-1, 0, 0]):
        measured.tree = tree
        with pytest.raises(ValueError, match="are no tree"):
            Training().set_tree(tree)
    measured.tree = [1, 2, 2]
    training = Training()
    training.set_tree(measured.tree)
    assert training.wanted_tree == [1, 2, 2]
    with pytest.raises(ValueError, match="interval is a number of steps, not 0"):
        kf.policy.LatencyTreePolicy(interval=0)


class Measured:
    """Peers, and the tree that is the best for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree, self.membership = [0], 0
        monkeypatch.setattr(ops, "get_peer_latencies", list)
        monkeypatch.setattr(ops, "global_minimum_spanning_tree", lambda _: None)
        monkeypatch.setattr(ops, "parents", lambda _: tf.constant(self.tree))
        monkeypatch.setattr(peer, "agreed_version", lambda: self.membership)
        monkeypatch.setattr(peer, "size", lambda: len(self.tree))


def wanted(training: Training) -> list[int] | None:
    """What it was asked for since the last time."""
    tree, training.wanted_tree = training.wanted_tree, None
    return tree


@pytest.mark.parametrize("interval", [None, 4])
def test_other_peers_get_a_tree_at_once(
    interval: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is the same one: the change has dropped it."""
    measured, training = Measured(monkeypatch), Training()
    measured.tree = [0, 0]
    policy, newcomer = (kf.policy.LatencyTreePolicy(interval=interval) for _ in range(2))
    policy.before_train(training)
    assert wanted(training) == [0, 0]
    training.step = 1
    policy.after_step(training)
    assert wanted(training) is None
    measured.membership, training.step = 1, 2
    for one in (policy, newcomer):
        one.after_step(training)
        assert wanted(training) == [0, 0]
    for training.step in (3, 4):
        policy.after_step(training)
        assert wanted(training) is None


def test_a_better_tree_is_taken_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, training = Measured(monkeypatch), Training()
    policy, found = kf.policy.LatencyTreePolicy(interval=4), {}
    policy.before_train(training)
    assert wanted(training) == [0]
    measured.tree = [1, 1]
    training.last_steps = 3
    for training.step in (3, 6, 9, 12):
        policy.after_step(training)
        if tree := wanted(training):
            found[training.step] = tree
    assert found == {6: [1, 1]}
    policy.before_train(training)
    assert wanted(training) == [1, 1]
