"""SIGTERM to one peer of a training, or to all: they finish their step, and leave in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs

PROGRAM = programs.FOLDER / "survivors.py"
ELASTIC = programs.FOLDER / "survivors_elastic.py"
SURVIVE = ("-on-failure", "survive")
FAULTS = [(3, "forward"), (0, "validation"), (1, "step end")]
DAILY = ("S-SGD", "direct")
WAYS = {"direct": {"KUNGFU_DIRECT_BYTES": "1"}, "tcp": {"KUNGFU_TRANSPORT": "tcp"}}


@pytest.mark.parametrize(
    ("method", "way"),
    [
        pytest.param(*(method, way), marks=[] if (method, way) == DAILY else pytest.mark.exhaustive)
        for method in ("S-SGD", "SMA", "LocalSGD", "DiLoCo")
        for way in WAYS
    ],
)
def test_who_is_asked_to_go_finishes_its_step(method: str, way: str, tmp_path: Path) -> None:
    """The others have what one process has from the samples of those that were there."""
    done = programs.run(
        *(PROGRAM, tmp_path, method, *(f"{who}:{phase}:notice" for who, phase in FAULTS)),
        flags=["-np", "4", *SURVIVE],
        env=WAYS[way],
    )
    said = done.stdout + done.stderr
    for others, (who, phase) in zip((3, 2, 1), FAULTS, strict=True):
        assert len(re.findall(rf"\[{who}\] injected .*'{phase}'", done.stdout)) == 1, said
        (steps,) = re.findall(rf"\[{who}\] left {phase} after (\d) steps, code 0", done.stdout)
        assert int(steps) > 0
        assert done.stdout.count(f"without it from step {steps}\n") >= others, said
        assert done.stdout.count(f"survived {phase}") == others, said
        assert re.search(rf"rank {who} \(.*\) leaves: SIGTERM; the job goes on", done.stderr), said
    assert done.stderr.count("went on") == 3, said


def test_in_an_elastic_training_each_sample_is_trained_on_once(tmp_path: Path) -> None:
    flags = ["-np", "4", "-w", "-H", "127.0.0.1:6", *SURVIVE]
    done = programs.run(ELASTIC, tmp_path, "fit", "noticed", flags=flags)
    said = done.stdout + done.stderr
    assert sorted(re.findall(r"left (\w+)", done.stdout)) == ["0", "2"], said
    assert sorted(re.findall(r"survived (\w+)", done.stdout)) == ["1", "3"], said


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
