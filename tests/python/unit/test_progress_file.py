"""Who tells the peers that are started anew how far a training was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kungfu_tf import config, peer
from kungfu_tf.membership import progress


@pytest.mark.parametrize(("joining", "written"), [(False, "7"), (True, None)])
def test_a_newcomer_does_not_know_how_far_the_others_are(
    joining: bool, written: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [joining]

    def resize() -> bool:
        now[0] = False
        return True

    monkeypatch.setattr(config, "run_directory", lambda: tmp_path)
    monkeypatch.setattr(peer, "joining", lambda: now[0])
    monkeypatch.setattr(peer, "resize", resize)
    monkeypatch.setattr(peer, "detached", lambda: False)
    assert progress.change_cluster(7) == (True, False)
    file = tmp_path / config.PROGRESS_FILE
    assert (file.read_text() if file.exists() else None) == written
