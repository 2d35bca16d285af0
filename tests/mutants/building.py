"""Builds what a fault in C++ touches, in the scratch copy: quickly, so without optimisation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutants import scratch
from tests.mutants.mutant import Mutant

CORE = scratch.FOLDER / "core"


class BuildError(Exception):
    """A fault that does not compile is none; the message is the compiler's."""


def build(mutant: Mutant) -> None:
    """Builds what the mutant's test needs.

    Raises:
        BuildError: If it does not compile.
    """
    if mutant.part == "kernels":
        _run([sys.executable, "setup.py", "--quiet", "build_ops"])
    elif mutant.tests_in_cpp:
        build_test(mutant.test)
    elif mutant.part == "core":
        _ninja("kungfu")
        library = scratch.TREE / scratch.LIBRARIES / "libkungfu.so.1"
        library.unlink()
        shutil.copy(CORE / library.name, library)


def build_test(test: str) -> Path:
    """The binary of a C++ test."""
    binary = test.split()[0]
    _ninja(binary)
    return CORE / "tests" / binary


def _ninja(target: str) -> None:
    if not (CORE / "build.ninja").exists():
        options = ["-DKUNGFU_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug", "-DKUNGFU_IN_PIECES=OFF"]
        _run(["cmake", "-G", "Ninja", "-S", str(scratch.TREE / "ops"), "-B", str(CORE), *options])
    _run(["ninja", "-C", str(CORE), target])


def _run(command: list[str]) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        command,
        cwd=scratch.TREE,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        raise BuildError(result.stdout[-4000:])
