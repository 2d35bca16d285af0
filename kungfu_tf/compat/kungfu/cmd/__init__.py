"""`python -m kungfu.cmd` is kungfu-run; processes that a program starts itself; and recovery.

With kungfu-run -auto-recover a program says by the `monitor_` functions how far it is. kungfu_tf
sees by itself which peers have failed, and only the epochs count: see `kungfu.cmd._recovery`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kungfu.cmd import _recovery

import kungfu_tf as kf
from kungfu_tf.compat._launched import Launched
from kungfu_tf.launcher.command import kungfu_run as launcher

__all__ = [
    "launch_multiprocess",
    "monitor_batch_begin",
    "monitor_batch_end",
    "monitor_epoch_end",
    "monitor_train_end",
    "run",
]


def run(shift_argc: int = 1) -> None:
    """Is kungfu-run, with this process' arguments from that one on, and ends the process."""
    sys.exit(launcher.main(sys.argv[shift_argc:]))


def launch_multiprocess(f: Callable[[int], Any], np: int) -> list[Any]:
    """Runs `f(rank)` in `np` new processes of this machine, and returns their results."""
    return kf.launch(Launched(f), np)


def monitor_batch_begin() -> None:
    """A step begins."""


def monitor_batch_end() -> None:
    """A step has ended."""


def monitor_epoch_end() -> None:
    """An epoch has ended, and this peer has saved its model."""
    _recovery.count_epoch()


def monitor_train_end() -> None:
    """The training has ended."""


_recovery.continue_arguments(sys.argv)
