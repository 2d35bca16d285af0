"""Runs the named programs one after the other, on each peer of a job: `all.py readme tape`.

Rank 0 prints "passed NAME" when all peers have reached the end of a program.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import kungfu_tf as kf

HERE = Path(__file__).resolve().parent

for name in sys.argv[1:]:
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
    kf.barrier()
    if kf.is_root():
        print(f"passed {name}", flush=True)
