"""Collects the modules of cases; harness/__init__.py tells how they work.

harness/    starts peers, and has them run cases or programs
cases/      what peers do together, by the room that it is about
programs/   jobs of their own, which the tests in this folder start
shared/     what all of these import
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).with_name("shared")))
sys.path.insert(0, str(Path(__file__).parent))

import foreign
from harness import programs
from harness.plugin import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_pycollect_makemodule,
    pytest_runtest_teardown,
)

__all__ = [
    "expected",
    "home",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_pycollect_makemodule",
    "pytest_runtest_teardown",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another home directory, and no variables of those who have started the tests.

    Slurm does not hand on what a shell has exported as a function.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in os.environ:
        if name.startswith(("SLURM_", "KUNGFU_SE", "TF_CONFIG", "BASH_FUNC_")):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What two peers of kungfu-run write."""
    directory = tmp_path_factory.mktemp("expected")
    programs.run(foreign.PROGRAM, directory, flags=["-np", "2"])
    return foreign.written(directory, 2)
