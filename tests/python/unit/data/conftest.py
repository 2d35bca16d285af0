"""What the tests of files that peers share have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Makes this process a rank of so many, for what reads and writes."""

    def become(rank: int, size: int) -> None:
        monkeypatch.setattr("kungfu_tf.peer.rank", lambda: rank)
        monkeypatch.setattr("kungfu_tf.peer.size", lambda: size)

    return become
