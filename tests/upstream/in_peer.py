"""Runs a file of Horovod's or BlueFog's tests in this peer, and prints a line for each test.

kungfu-run -compat horovod ... python in_peer.py FILE [ARGUMENTS OF PYTEST]

All peers begin each test together: a test that fails on one of them leaves the others waiting. It
needs the packages that Horovod's tests need: pytest, parameterized, mock. The exit code is 0 if all
tests were begun.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from kungfu_tf import peer


def in_thread(target: Callable[..., Any], args: tuple[Any, ...] = (), **_: Any) -> threading.Thread:
    """What a helper of the tests imports from Horovod's launcher."""
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


class Together:
    """A plugin of pytest. A test is as its parts are, which run in graphs and eagerly."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._why = ""

    def pytest_runtest_setup(self, item: Any) -> None:
        """Waits for the others; what one of them has given up is forgotten."""
        del item
        self._parts, self._why = [], ""
        peer.begin_epoch()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Prints the result of a test, after those of its parts."""
        if report.outcome != "passed":
            self._why = str(report.longrepr).splitlines()[-1]
        is_part = hasattr(report, "context")
        if is_part or report.outcome != "passed":
            self._parts.append(report.outcome)
        if report.when == "teardown":
            print(
                f"\nTEST {report.nodeid.split('::')[-1]} {self._outcome()} {self._why}", flush=True
            )

    def _outcome(self) -> str:
        if "failed" in self._parts:
            return "failed"
        return "skipped" if set(self._parts) == {"skipped"} else "passed"


if __name__ == "__main__":
    threads = types.ModuleType("horovod.runner.util.threads")
    threads.in_thread = in_thread  # type: ignore[attr-defined]
    place = types.ModuleType("horovod.runner.common.util.env")
    place.get_env_rank_and_size = lambda: (peer.rank(), peer.size())  # type: ignore[attr-defined]
    for module in (threads, place):
        parts = module.__name__.split(".")
        for depth in range(3, len(parts)):
            parent = ".".join(parts[:depth])
            sys.modules[parent] = types.ModuleType(parent)
        sys.modules[module.__name__] = module
    for launcher in ("HOROVOD", "PMI"):  # BlueFog's tests look for those of MPI
        os.environ[f"{launcher}_RANK"] = str(peer.rank())
        os.environ[f"{launcher}_SIZE"] = str(peer.size())
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "--tb=short"]
    code = pytest.main([*options, *sys.argv[1:]], plugins=[Together()])
    sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code))
