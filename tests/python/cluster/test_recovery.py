"""Jobs whose peers are all started anew go on from their last checkpoints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness import programs


def ran(program: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return programs.run(programs.FOLDER / program, folder / "backup", flags=options)


def test_trainings_go_on_where_their_backups_are(tmp_path: Path) -> None:
    done = ran("recovery.py", tmp_path, "-auto-recover", "0", "-np", "2")
    for rank in (0, 1):
        for name, run, epochs in (("fit", 1, ["2", "3"]), ("elastic", 2, ["1", "2"])):
            line = rf"^\[{rank}\] {name} {run} epoch (\d)$"
            assert re.findall(line, done.stdout, re.MULTILINE) == epochs
        assert f"[{rank}] done 8" in done.stdout
        assert f"[{rank}] done 15" in done.stdout
    assert "starting all anew, 2 peers, 2 of at most 10 times after a failure" in done.stderr
    assert done.stderr.count("starting all anew") == 2, done.stderr


def test_a_session_goes_on_where_its_checkpoint_is(tmp_path: Path) -> None:
    """Saved after 5 of 12 steps of 8 samples, killed after 7; an epoch has 4."""
    done = ran("recovery_session.py", tmp_path, "-auto-recover", "0", "-restarts", "1", "-np", "2")
    first = ["0 epoch 0 after 0 steps, 0 samples", "0 epoch 1 after 4 steps, 32 samples"]
    second = ["1 epoch 1 after 5 steps, 40 samples", "1 epoch 2 after 8 steps, 64 samples"]
    for rank in (0, 1):
        said = re.findall(rf"^\[{rank}\] run (.+)$", done.stdout, re.MULTILINE)
        assert said == [*first, *second, "1 ends"], done.stdout


def test_in_reload_mode_who_asked_last_has_the_number_of_peers(tmp_path: Path) -> None:
    """A schedule, before there is a backup; then somebody else, whom it does not outvote."""
    hosts = ["-w", "-np", "1", "-H", "127.0.0.1:4", "-elastic-mode", "reload"]
    done = ran("reloads.py", tmp_path, *hosts)
    sizes = re.findall(r"starting all anew, (\d) peers", done.stderr)
    assert sizes == ["2", "3"], done.stderr
    ended = re.findall(r"^\[(\d)\] ok (.+)$", done.stdout, re.MULTILINE)
    assert sorted(ended) == [("0", "1 2 3"), ("1", "1 2 3"), ("2", "1 2 3")], done.stdout


def test_in_reload_mode_a_session_saves_where_its_peers_leave_it(tmp_path: Path) -> None:
    hosts = ["-w", "-np", "1", "-H", "127.0.0.1:4", "-elastic-mode", "reload"]
    done = ran("reloads_session.py", tmp_path, *hosts)
    said = re.findall(r"^\[\d\] of (\d) from (\d)$", done.stdout, re.MULTILINE)
    assert sorted(said) == [("1", "0"), ("2", "5"), ("2", "5")], done.stdout
