"""The ways of data between the peers of a program: in memory that they share; by messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import programs

TWO_HOSTS = "two hosts with HIERARCHY"
_ENVIRONMENTS = {
    "direct": {"KUNGFU_DIRECT_BYTES": "1"},
    "unix": {"KUNGFU_TRANSPORT": "unix"},
    "tcp": {"KUNGFU_TRANSPORT": "tcp"},
}
ALL = (*_ENVIRONMENTS, TWO_HOSTS)


def run(
    way: str, program: Path, *arguments: object, flags: Sequence[str], slots: int = 4
) -> tuple[str, str]:
    """What four peers have printed, and what the launcher, or both launchers.

    Args:
        way: One of `ALL`.
        flags: Of the launcher.
        slots: How many peers there may be, on all hosts together.
    """
    flags = ["-np", "4", *flags]
    if way == TWO_HOSTS:
        flags += ["-strategy", "HIERARCHY"]
        done = programs.run_on_two_hosts(program, *arguments, flags=flags, slots=slots // 2)
    else:
        flags += ["-H", f"127.0.0.1:{slots}"]
        done = [programs.run(program, *arguments, flags=flags, env=_ENVIRONMENTS[way])]
    return "".join(one.stdout for one in done), "".join(one.stderr for one in done)
