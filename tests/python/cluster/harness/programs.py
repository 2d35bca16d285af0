"""Runs programs that are more than cases: each is a job of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import warm
from harness.launch import environment

FOLDER = Path(__file__).parents[1] / "programs"


def run(
    program: Path,
    *arguments: object,
    flags: Sequence[str],
    env: Mapping[str, str | None] | None = None,
    code: int = 0,
) -> subprocess.CompletedProcess[str]:
    """What its peers have printed. It must end with this code.

    Args:
        flags: of the launcher.
        env: changes of `environment()`.
        code: of the launcher.
    """
    changed = environment(env)
    command = [sys.executable, "-m", "kungfu_tf.launcher", *flags, *warm.python(changed)]
    done = subprocess.run(
        [*command, str(program), *map(str, arguments)],
        env=changed,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done
