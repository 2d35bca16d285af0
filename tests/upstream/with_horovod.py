"""Runs a file of Horovod's tests in this peer, and prints a line for each test.

kungfu-run -compat horovod ... python with_horovod.py FILE [ARGUMENTS OF PYTEST]

All peers begin each test together: a test that fails on one of them leaves the others waiting. It
needs the packages that Horovod's tests need: pytest, parameterized, mock. The exit code is 0 if all
tests were begun.
"""

from __future__ import annotations

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
    """A plugin of pytest."""

    def pytest_runtest_setup(self, item: Any) -> None:
        """Waits for the others; what one of them has given up is forgotten."""
        del item
        peer.begin_epoch()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Prints the result of a test."""
        is_over = report.when == "call" or report.outcome != "passed"
        if is_over and report.when != "teardown":
            why = str(report.longrepr).splitlines()[-1] if report.outcome != "passed" else ""
            print(f"\nTEST {report.nodeid.split('::')[-1]} {report.outcome} {why}", flush=True)


if __name__ == "__main__":
    threads = types.ModuleType("horovod.runner.util.threads")
    threads.in_thread = in_thread  # type: ignore[attr-defined]
    sys.modules["horovod.runner.util"] = types.ModuleType("horovod.runner.util")
    sys.modules[threads.__name__] = threads
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "--tb=short"]
    code = pytest.main([*options, *sys.argv[1:]], plugins=[Together()])
    sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code))
