"""What a script of benchmarks/ refuses, before it measures or writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

ROUNDS = (
    "all_reduce.py",
    "auto.py",
    "beside.py",
    "elastic.py",
    "groups.py",
    "monitoring.py",
    "pause.py",
    "straggler.py",
    "strategies.py",
    "surviving.py",
    "targets.py",
)
COMPILED = ("all_reduce.py", "auto.py", "growth.py", "targets.py")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("rounds", ["0", "-1", "x"])
@pytest.mark.parametrize("script", ROUNDS)
def test_no_rounds_are_refused(call, bare: Path, script: str, rounds: str) -> None:
    before = contents(bare / "results")
    ended = call(script, "--rounds", rounds)
    assert ended.returncode == 2
    assert f"argument --rounds: expected a whole number from 1 on, not '{rounds}'" in ended.stderr
    assert contents(bare / "results") == before


@pytest.mark.parametrize("script", COMPILED)
def test_programs_that_are_not_built_take_one_line(call, bare: Path, script: str) -> None:
    before = contents(bare / "results")
    ended = call(script)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    *_, last = ended.stderr.splitlines()
    assert "benchmark_" in last
    assert "`make bench-programs`" in last
    assert contents(bare / "results") == before


def test_all_programs_are_looked_for_before_anything_is_measured(call, bare: Path) -> None:
    built = bare.parent / "build" / "core" / "benchmarks"
    built.mkdir(parents=True)
    for program in ("core", "limits", "loopback"):
        (built / f"benchmark_{program}").touch()
    ended = call("targets.py", "--rounds", "1")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "benchmark_many is not there" in line


def test_what_is_not_installed_is_named_once(call) -> None:
    said = call("all_reduce.py", "--rounds", "1").stderr
    names = ("Open MPI;", "MPICH", "PyTorch gloo", "Horovod (Gloo)", "MultiWorkerMirrored RING")
    assert {name: said.count(name) for name in names} == dict.fromkeys(names, 1)
    assert said.count("`make bench-peers`") == said.count("`make setup`") == 1


@pytest.mark.parametrize("script", ["all_reduce.py", "auto.py"])
def test_hosts_that_cannot_be_had_are_named_once(call, script: str) -> None:
    """The PATH has no `ip`, without which root makes none either."""
    said = call(script, "--rounds", "1").stderr
    assert said.count("core, two hosts") == 1
    assert "they take root and `ip`" in said


def test_help_says_what_only_takes(call) -> None:
    said = " ".join(call("all_reduce.py", "--help").stdout.split())
    assert "sums: In-place float32 sums, without TensorFlow" in said
    assert "gradients: All gradients of a model" in said
