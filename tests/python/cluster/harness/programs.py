"""Runs programs that are more than cases: each is a job of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import warm
from harness.launch import environment
from tests import ports

_PATIENCE = 240.0
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
    done = subprocess.run(
        _command(program, arguments, flags, changed),
        env=changed,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def run_on_two_hosts(
    program: Path,
    *arguments: object,
    flags: Sequence[str],
    env: Mapping[str, str | None] | None = None,
    slots: int = 2,
) -> list[subprocess.CompletedProcess[str]]:
    """The same with two launchers, of two addresses of this machine with so many slots each."""
    runner, first, *_, last = ports.take(10)
    changed = environment({"KUNGFU_SECRET": "s" * 64, **(env or {})})
    hosts = ["-H", f"127.0.0.1:{slots},127.0.0.2:{slots}", "-port", str(runner), "-port-range"]
    started = [
        subprocess.Popen(
            _command(
                program, arguments, [*flags, *hosts, f"{first}-{last}", "-self", here], changed
            ),
            env=changed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for here in ("127.0.0.1", "127.0.0.2")
    ]
    try:
        # Together: one that is not read would wait for a reader.
        with ThreadPoolExecutor() as pool:
            said = list(pool.map(lambda one: one.communicate(timeout=_PATIENCE), started))
    finally:
        for one in started:
            one.kill()
    done = [
        subprocess.CompletedProcess(one.args, one.returncode, *texts)
        for one, texts in zip(started, said, strict=True)
    ]
    assert [one.returncode for one in done] == [0, 0], said
    return done


def _command(
    program: Path, arguments: Sequence[object], flags: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    command = [sys.executable, "-m", "kungfu_tf.launcher", *flags, *warm.python(env)]
    return [*command, str(program), *map(str, arguments)]
