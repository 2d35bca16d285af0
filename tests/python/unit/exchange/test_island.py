"""The islands that hosts are."""

from __future__ import annotations

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.exchange.island import ranks_by_host


def test_ranks_of_each_host() -> None:
    names = ["10.0.0.1:10000", "10.0.0.1:10001", "10.0.0.2:10000", "10.0.0.1:10002", "[::1]:1"]
    assert ranks_by_host(names) == [[0, 1, 3], [2], [4]]
    assert ranks_by_host([]) == []


@pytest.mark.parametrize(("what", "flag"), [("elastic", "-w"), ("survives", "-on-failure survive")])
def test_peers_that_come_or_go_have_none(
    what: str, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = tf.Variable([1.0])
    optimizer = kf.optimizers.DiLoCoOptimizer(tf.keras.optimizers.SGD(0.1), island="host")
    monkeypatch.setattr(peer, what, lambda: True)
    with pytest.raises(kf.errors.UnimplementedError, match=f"island=.* with kungfu-run {flag}: "):
        optimizer.apply_gradients([(tf.ones([1]), variable)])
