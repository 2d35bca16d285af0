"""Runs a test in the scratch copy, and says what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from tests.mutants import building, scratch

TIMEOUT = 300.0  # seconds; a test that hangs has found something, too
_FAILED = 1  # pytest's exit code, and that of the C++ tests


class TrialError(Exception):
    """The test has not run; the message is what it printed."""


def passes(tests: list[str]) -> bool:
    """Whether all of these pass, which are of Python, or one of C++.

    Raises:
        TrialError: If that cannot be said: nothing was selected, or it cannot be imported.
    """
    if ".py" in tests[0]:
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests]
    else:
        binary = building.CORE / "tests" / tests[0].split()[0]
        command = [str(binary), *tests[0].split()[1:]]
    code, output = _run(command)
    if code == 0:
        return True
    if code is None or code == _FAILED or (code < 0 and ".py" not in tests[0]):
        return False
    raise TrialError(f"exit code {code}:\n{output[-4000:]}")


def _run(command: list[str]) -> tuple[int | None, str]:
    """The exit code and the output; no code if it took too long."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(scratch.TREE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KUNGFU_BIND_TO": "none",
    }
    with subprocess.Popen(
        command,
        cwd=scratch.TREE,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            for number in (signal.SIGINT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=20)
                    break
            return None, ""
