"""`python -m kungfu.cmd` is kungfu-run; and processes that a program starts itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import kungfu_tf as kf
from kungfu_tf.compat._launched import Launched
from kungfu_tf.launcher.command import kungfu_run as launcher

__all__ = ["launch_multiprocess", "run"]


def run() -> None:
    """Is kungfu-run, with this process' arguments, and ends the process."""
    sys.exit(launcher.main())


def launch_multiprocess(f: Callable[[int], Any], np: int) -> list[Any]:
    """Runs `f(rank)` in `np` new processes of this machine, and returns their results."""
    return kf.launch(Launched(f), np)
