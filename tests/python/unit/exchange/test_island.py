"""The islands that hosts are."""

from __future__ import annotations

from kungfu_tf.exchange.island import ranks_by_host


def test_ranks_of_each_host() -> None:
    names = ["10.0.0.1:10000", "10.0.0.1:10001", "10.0.0.2:10000", "10.0.0.1:10002", "[::1]:1"]
    assert ranks_by_host(names) == [[0, 1, 3], [2], [4]]
    assert ranks_by_host([]) == []
