"""Runs commands that end in time, whatever they do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_GRACE = 60.0  # seconds after SIGTERM


def run(
    commands: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str], limit: float
) -> str:
    """Runs commands side by side in a folder, where `output` gets what they print.

    Args:
        commands: They get SIGTERM if they are not over in time, and SIGKILL a minute later.
        folder: Their working directory.
        environment: Their environment.
        limit: The most seconds.

    Returns:
        How they have failed; empty if all have ended with code 0.
    """
    path = folder / "output"
    deadline = time.monotonic() + limit
    with path.open("w") as output:
        processes = [
            subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for command in commands
        ]
    try:
        codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        return f"not over after {limit:g} s; {path}"
    finally:
        _end(processes)
    code = next(filter(None, codes), 0)
    return f"exit code {code}; {path}" if code else ""


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _GRACE
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
