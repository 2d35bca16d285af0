"""`make bench`: how long a float32 sum over the peers of this host takes.

The core alone and in a `tf.function`, for 2 and 4 processes. Every result is verified before
anything is timed. Prints a Markdown table of medians. Figures differ from machine to machine and
from hour to hour: compare only what was measured in one run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "core": [str(ROOT / "build" / "core" / "benchmarks" / "all_reduce_benchmark")],
    "tf.function": [sys.executable, str(ROOT / "benchmarks" / "all_reduce_tf.py")],
}
PEERS = (2, 4)
SIZES = (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20)
SECONDS_PER_RUN = 600


def measure(program: list[str], peers: int) -> dict[int, float]:
    """Bytes → median seconds."""
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", str(peers)]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        subprocess.run(
            [*launcher, *program, str(report), *map(str, SIZES)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            timeout=SECONDS_PER_RUN,
        )
        lines = [line.split() for line in report.read_text().splitlines()]
    return {int(size): float(seconds) for size, seconds in lines}


def show_bytes(count: int) -> str:
    for unit, bits in (("MiB", 20), ("KiB", 10)):
        if count >= 1 << bits:
            return f"{count >> bits} {unit}"
    return f"{count} B"


def show_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"In-place sum of float32 over the peers of one host, {cores} cores, medians\n")
    print("| |", " | ".join(show_bytes(size) for size in SIZES), "|")
    print("|---" * (1 + len(SIZES)) + "|")
    for name, program in PROGRAMS.items():
        for peers in PEERS:
            seconds = measure(program, peers)
            cells = " | ".join(show_seconds(seconds[size]) for size in SIZES)
            print(f"| {name}, {peers} processes | {cells} |", flush=True)


if __name__ == "__main__":
    main()
