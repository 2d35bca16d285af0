"""_build: compiling the op library. The sources here are tiny; those of the ops are compiled by the
tests of the installation."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import subprocess
import types
from pathlib import Path

import pytest

from kungfu_tf.native import build
from kungfu_tf.native import libraries as native

TENSORFLOW = build.TensorFlow("9.8.7", ["-DEMPTY"], [])

SOURCE = """
extern "C" __attribute__((visibility("default"))) const char kungfu_ops_build[];
const char kungfu_ops_build[] = "kungfu_ops_build:" KUNGFU_OPS_BUILD ";";
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with an `ops/` that compiles within a second."""
    for name, text in {
        "tensorflow/small.cc": SOURCE,
        "tensorflow/exports.map": "{ global: kungfu_ops_build; local: *; };",
        "c_api/kungfu.h": "",
    }.items():
        path = tmp_path / "source" / "ops" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "source"


def built(sources: Path, output: Path, **arguments: object) -> Path:
    return build.build_op_library(
        output, core_dir=native.LIBRARY_DIR, source_dir=sources, tensorflow=TENSORFLOW, **arguments
    )


def cached(sources: Path, cache: Path, **arguments: object) -> Path:
    return build.cached_op_library(
        cache, core_dir=native.LIBRARY_DIR, source_dir=sources, tensorflow=TENSORFLOW, **arguments
    )


def test_the_library_says_what_it_was_built_for(sources: Path, tmp_path: Path) -> None:
    library = built(sources, tmp_path / "out")
    assert library.name == "libkungfu_ops-9.8.so"
    marker = build.read_marker(library)
    assert marker is not None
    assert marker.tensorflow == "9.8.7"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [library.name]


def test_the_same_is_not_built_again(sources: Path, tmp_path: Path) -> None:
    first = built(sources, tmp_path).stat().st_ino
    assert built(sources, tmp_path).stat().st_ino == first
    (sources / "ops" / "tensorflow" / "small.cc").write_text(SOURCE + "// changed\n")
    assert built(sources, tmp_path).stat().st_ino != first


@pytest.mark.parametrize("content", [None, b"", b"text", b"kungfu_ops_build:tensorflow="])
def test_other_files_have_no_marker(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    assert build.read_marker(tmp_path / "file") is None


def test_what_does_not_compile_is_shown(sources: Path, tmp_path: Path) -> None:
    (sources / "ops" / "tensorflow" / "wrong.cc").write_text("int f() { return nonsense; }")
    with pytest.raises(build.BuildError, match="nonsense"):
        built(sources, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_symbols_that_nobody_has_are_an_error_of_the_build(sources: Path, tmp_path: Path) -> None:
    (sources / "ops" / "tensorflow" / "wrong.cc").write_text("void g(); void f() { g(); }")
    with pytest.raises(build.BuildError, match="undefined reference"):
        built(sources, tmp_path / "out")


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, sources: Path, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"install g\+\+"):
        cached(sources, tmp_path / "cache")
    with pytest.raises(build.BuildError, match=r"'no-such-c\+\+'"):
        cached(sources, tmp_path / "cache", compiler="no-such-c++")


@pytest.mark.parametrize("make", [built, cached])
def test_the_whole_build_has_one_deadline(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object
) -> None:
    """Asking the compiler for its version takes 2 s, by a clock of our own: 7 are left."""
    now, left = [0.0], []

    def run(command: list[str], *, timeout: float, **_: object) -> object:
        if "--version" not in command:
            left.append(timeout)
            raise subprocess.TimeoutExpired(command, timeout)
        now[0] += 2.0
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(build, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(build.BuildError, match="not ready after 9 s"):
        make(sources, tmp_path / "out", timeout=9.0)
    assert left == [7.0]


def test_without_tensorflow(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named tensorflow' >&2\nexit 1\n")
    python.chmod(0o700)
    with pytest.raises(build.BuildError, match="No module named tensorflow"):
        build.query_tensorflow(str(python))


def compile_in_a_process(sources: Path, cache: Path, ready: object, results: object) -> None:
    ready.wait(60)  # type: ignore[attr-defined]
    results.put(cached(sources, cache))  # type: ignore[attr-defined]


def test_processes_that_start_together_compile_once(
    sources: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(4), context.Queue()
    processes = [
        context.Process(
            target=compile_in_a_process, args=(sources, tmp_path / "cache", ready, results)
        )
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    libraries = {results.get(timeout=120) for _ in processes}
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(libraries) == 1
    assert libraries.pop().is_file()
    assert capfd.readouterr().err.count("compiling the ops for TensorFlow 9.8.7") == 1


def test_waiting_for_another_process_has_a_deadline(sources: Path, tmp_path: Path) -> None:
    directory = cached(sources, tmp_path / "cache").parent
    next(directory.glob("*.so")).unlink()
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(build.BuildError, match="another process has held"):
            cached(sources, tmp_path / "cache", timeout=0.3)
    assert cached(sources, tmp_path / "cache").is_file()


def test_a_cache_of_somebody_else_is_refused(
    monkeypatch: pytest.MonkeyPatch, sources: Path, tmp_path: Path
) -> None:
    cached(sources, tmp_path / "cache")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(build.BuildError, match="another user"):
        cached(sources, tmp_path / "cache")


def test_a_cache_that_cannot_be_made(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(build.BuildError, match="KUNGFU_CACHE_DIR"):
        cached(sources, tmp_path / "file")
