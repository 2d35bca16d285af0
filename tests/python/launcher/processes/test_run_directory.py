"""Where a runner has its private directory."""

import tempfile
from pathlib import Path

import pytest

from kungfu_tf.launcher.command import kungfu_run


def test_without_a_temporary_folder_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    assert kungfu_run.main(["-np", "1", "true"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("kungfu-run: no temporary folder can be written")
    assert complaint.count("\n") == 1
