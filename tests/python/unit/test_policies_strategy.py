"""When policies change the ways of all data, of trainings that only say what they see."""

from __future__ import annotations

from typing import Any

import pytest

import kungfu_tf as kf
from kungfu_tf import _measured, monitoring
from kungfu_tf.policy.training import Training


def test_the_strategy_changes_where_most_see_interference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which peers see it is no affair of the policy: here it is told."""
    told = iter([False, True, True, True])
    used = "STAR"
    monkeypatch.setattr(monitoring, "check_interference", lambda threshold: next(told))
    monkeypatch.setattr(_measured, "strategy", lambda: used)
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
        (["RING"], {"interval": 0}, "interval is a number of steps, not 0"),
        (["RING"], {"threshold": 1.0}, "between 0 and 1, not 1.0"),
    ],
)
def test_interference_arguments(strategies: list[str], options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kf.policy.InterferenceStrategyPolicy(strategies, **options)


def test_trees_of_policies() -> None:
    with pytest.raises(ValueError, match="a tree of 2 ranks, of 1 peers"):
        Training().set_tree([0, 0])
    with pytest.raises(ValueError, match="interval is a number of steps, not 0"):
        kf.policy.LatencyTreePolicy(interval=0)
