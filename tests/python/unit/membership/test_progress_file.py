"""The peers that tell those that are started anew how far the training was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kungfu_tf import config, peer
from kungfu_tf.native import calls


@pytest.mark.parametrize(("joining", "written"), [(False, "7"), (True, None)])
def test_a_newcomer_does_not_know_how_far_the_others_are(
    joining: bool, written: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"joining": joining, "version": 0}
    monkeypatch.setattr(config, "run_directory", lambda: tmp_path)
    monkeypatch.setattr(peer, "joining", lambda: now["joining"])
    monkeypatch.setattr(peer, "agreed_version", lambda: now["version"])
    change = {"joining": False, "version": 1}
    monkeypatch.setattr(calls, "run", lambda function: now.update(change))
    assert peer.resize(progress=7)
    file = tmp_path / config.PROGRESS_FILE
    assert (file.read_text() if file.exists() else None) == written


def test_progress_is_not_negative() -> None:
    with pytest.raises(ValueError, match="progress must not be negative, as -1 is"):
        peer.resize(progress=-1)
