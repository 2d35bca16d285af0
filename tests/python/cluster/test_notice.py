"""SIGTERM to one peer of a training, or to all: they finish their step, and leave in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs, ways

PROGRAM = programs.FOLDER / "survivors.py"
ELASTIC = programs.FOLDER / "survivors_elastic.py"
SESSION = programs.FOLDER / "notice_session.py"
SURVIVE = ("-on-failure", "survive")
FAULTS = [(3, "forward"), (0, "validation"), (1, "step end")]
DAILY = ("S-SGD", "direct")


@pytest.mark.lost_peers
@pytest.mark.parametrize(
    ("method", "way"),
    [
        pytest.param(*(method, way), marks=[] if (method, way) == DAILY else pytest.mark.exhaustive)
        for method in ("S-SGD", "SMA", "LocalSGD", "DiLoCo")
        for way in ways.ALL
    ],
)
def test_who_is_asked_to_go_finishes_its_step(method: str, way: str, tmp_path: Path) -> None:
    """The others have what one process has from the samples of those that were there.

    What it has learned since it last met them is lost.
    """
    arguments = (tmp_path, method, *(f"{who}:{phase}:notice" for who, phase in FAULTS))
    out, err = ways.run(way, PROGRAM, *arguments, flags=SURVIVE)
    for others, (who, phase) in zip((3, 2, 1), FAULTS, strict=True):
        assert len(re.findall(rf" injected .*who={who}, phase='{phase}'", out)) == 1, out
        (steps,) = re.findall(rf" left {phase} after (\d) steps, code 0", out)
        assert int(steps) > 0
        knew = rf"without it from step .*\b{steps}\b.*\n.* survived {phase}$"
        by_peer = [re.findall(rf"^\[(?:.*:)?{n}\] .*$", out, re.MULTILINE) for n in range(4)]
        survived = [re.search(knew, "\n".join(lines), re.MULTILINE) for lines in by_peer]
        assert sum(map(bool, survived)) == others, out + err
        assert re.search(rf"rank {who} \(.*\) leaves: SIGTERM; the job goes on", err), err
    assert err.count("went on") == 3, err


@pytest.mark.parametrize("how", ["fit", "loop"])
def test_in_an_elastic_training_the_others_go_on_where_it_was(how: str, tmp_path: Path) -> None:
    """In `fit` each sample is trained on once. A loop's progress is that of all."""
    flags = ["-np", "4", "-w", "-H", "127.0.0.1:6", *SURVIVE]
    done = programs.run(ELASTIC, tmp_path, how, "noticed", flags=flags)
    said = done.stdout + done.stderr
    assert sorted(re.findall(r"left (\w+)", done.stdout)) == ["0", "2"], said
    assert sorted(re.findall(r"survived (\w+)", done.stdout)) == ["1", "3"], said
    for who in (0, 2):
        assert re.search(rf"rank {who} \(.*\) leaves: SIGTERM; the job goes on", done.stderr), said


def test_a_newcomer_that_is_not_needed_any_more_ends_at_once(tmp_path: Path) -> None:
    program = programs.FOLDER / "newcomer_ends.py"
    flags = ["-np", "1", "-w", "-H", "127.0.0.1:2", *SURVIVE]
    done = programs.run(program, tmp_path, flags=flags)
    assert (tmp_path / "is there").exists(), done.stdout + done.stderr


def test_a_loop_ends_on_all_after_the_same_step(tmp_path: Path) -> None:
    flags = ["-np", "3", *SURVIVE]
    env = {"KUNGFU_GRACE": "60"}
    done = programs.run(ELASTIC, tmp_path, "loop", "ended", flags=flags, env=env, code=143)
    ends = re.findall(r"left (\w) at (\d+) with code 143", done.stdout)
    assert sorted(who for who, _ in ends) == ["0", "1", "2"], done.stdout + done.stderr
    assert len({progress for _, progress in ends}) == 1, ends
    assert "stopped by SIGTERM; no peer failed" in done.stderr


def test_who_is_asked_to_go_leaves_a_session_between_two_steps(tmp_path: Path) -> None:
    done = programs.run(SESSION, tmp_path, "leave", flags=["-np", "4", *SURVIVE])
    said = done.stdout + done.stderr
    left = dict(re.findall(r"left (\d) after (\d+)", done.stdout))
    assert left.keys() == {"0", "2"} and int(left["2"]) > 3 and int(left["0"]) > 6, said
    assert sorted(re.findall(r"survived (\d)", done.stdout)) == ["1", "3"], said


def test_a_session_ends_on_all_before_the_same_step_with_a_checkpoint(tmp_path: Path) -> None:
    env = {"KUNGFU_GRACE": "60"}
    flags = ["-np", "3", *SURVIVE]
    done = programs.run(SESSION, tmp_path, "end", flags=flags, env=env, code=143)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.made")}
    assert len(made) == 3 and len(set(made.values())) == 1, done.stdout + done.stderr
    steps = len(made["0.made"].splitlines())
    assert (tmp_path / f"checkpoints/model.ckpt-{steps}.index").exists(), done.stderr
    assert "stopped by SIGTERM; no peer failed" in done.stderr


def test_all_end_after_the_same_step_with_a_backup(tmp_path: Path) -> None:
    flags = ["-np", "3", *SURVIVE]
    env = {"KUNGFU_GRACE": "60"}
    done = programs.run(PROGRAM, tmp_path, "end", flags=flags, env=env, code=143)
    said = done.stdout + done.stderr
    steps = re.findall(r"ended after (\d) steps, code 143", done.stdout)
    assert len(steps) == 3 and len(set(steps)) == 1, said
    assert "stopped by SIGTERM; no peer failed" in done.stderr
    done = programs.run(PROGRAM, tmp_path, "resume", steps[0], flags=flags)
    assert f"[0] resumed epoch 2 after {steps[0]} steps" in done.stdout


@pytest.mark.exhaustive
def test_an_elastic_training_that_all_have_left_goes_on_with_the_next_sample(
    tmp_path: Path,
) -> None:
    flags = ["-np", "3", "-w", *SURVIVE]
    env = {"KUNGFU_GRACE": "60"}
    done = programs.run(ELASTIC, tmp_path, "fit", "ended", flags=flags, env=env, code=143)
    said = done.stdout + done.stderr
    assert sorted(re.findall(r"left (\w+)", done.stdout)) == ["0", "1", "2"], said
    done = programs.run(ELASTIC, tmp_path, "fit", "resumed", flags=flags)
    assert sorted(re.findall(r"survived (\w+)", done.stdout)) == ["0", "1", "2"], done.stdout
