"""One process of a system: what it calls, copies and sends in a step of the `fit` of fit.py.

counts_fit.py SYSTEM REPORT EPOCHS [TOOL...]

The first process runs under TOOL, and writes "KEY NUMBER" of one step to REPORT. Without
libbenchmark_counting.so in LD_PRELOAD only what is sent is counted. The first epochs do not count.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import fit
from adapters import started

KEYS = ("allocations", "clock_reads", "copied", "context_switches")
FIRST = 3


class Counted(ctypes.Structure):
    """That of counting.h."""

    _fields_ = [(key, ctypes.c_uint64) for key in KEYS]


class Count(fit.keras.callbacks.Callback):
    """What it was at the end of each epoch."""

    def __init__(self, system: Any) -> None:
        super().__init__()
        self._system = system
        self.so_far: list[dict[str, int]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        counted, process = Counted(), ctypes.CDLL(None)
        if hasattr(process, "benchmark_count"):
            process.benchmark_count(ctypes.byref(counted))
        figures = {key: getattr(counted, key) for key in KEYS}
        if hasattr(self._system, "bytes_sent"):
            figures["sent"] = self._system.bytes_sent()
        self.so_far.append(figures)


def main() -> None:
    name, report, epochs, *tool = sys.argv[1:]
    if tool and started.rank() == 0:
        os.execvp(tool[0], [*tool, sys.executable, __file__, name, report, epochs])
    system = importlib.import_module(f"adapters.{name}")
    count = Count(system)
    fit.train(system, FIRST + int(epochs), [count])
    if started.rank() == 0:
        before, after = count.so_far[FIRST - 1], count.so_far[-1]
        steps = fit.STEPS * int(epochs)
        lines = (f"{key} {(after[key] - before[key]) / steps}\n" for key in after)
        Path(report).write_text("".join(lines))


if __name__ == "__main__":
    main()
