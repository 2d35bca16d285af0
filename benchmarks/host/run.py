"""All-reduce within one host: the core, MPI libraries, and what the machine allows.

python benchmarks/host/run.py [--peers 2 4] [--rounds 5] [--programs build/core/benchmarks]

In-place sums of float32, each verified before it is timed. The systems take turns, round by round,
so that a disturbance hits all of them; a figure is the median of its rounds. Prints a Markdown
table. MPI is whatever `mpicxx` and `mpirun` are on the PATH, or in the directories of --mpi.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 100 << 20)
SECONDS_PER_RUN = 120
Commands = dict[str, list[str]]


def core(programs: Path, peers: int) -> Commands:
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", str(peers)]
    program = [str(programs / "host_core"), "REPORT"]
    return {
        "core, shared memory": [*launcher, *program, "shared"],
        "core, ordinary memory": [*launcher, *program, "ordinary"],
        "core, TCP": ["env", "KUNGFU_TRANSPORT=tcp", *launcher, *program, "ordinary"],
    }


def limits(programs: Path, peers: int) -> Commands:
    """They make sense where each process has a core; some of them spin."""
    if peers != 2 or peers > len(os.sched_getaffinity(0)):
        return {}
    kinds = {"host_limits": ("zero-copy", "copy-in"), "host_loopback": ("one-way", "both-ways")}
    return {
        f"{program.removeprefix('host_').removesuffix('s')}, {kind}": [
            str(programs / program),
            "REPORT",
            kind,
        ]
        for program, of_program in kinds.items()
        for kind in of_program
    }


def mpi(directories: list[str], scratch: Path, peers: int) -> Commands:
    """The libraries that compile the program, by what they call themselves."""
    commands = {}
    for number, directory in enumerate(directories):
        compiler = shutil.which("mpicxx", path=directory)
        launcher = shutil.which("mpirun", path=directory)
        if not compiler or not launcher:
            continue
        program = scratch / f"mpi-{number}"
        build = [compiler, "-O2", "-std=c++17", f"-I{ROOT}", str(ROOT / "benchmarks/host/mpi.cc")]
        if not program.exists():
            subprocess.run([*build, "-o", str(program)], check=True, timeout=SECONDS_PER_RUN)
        version = subprocess.run([launcher, "--version"], capture_output=True, text=True).stdout
        is_open_mpi = "Open MPI" in version
        options = ["--oversubscribe", "--allow-run-as-root"] if is_open_mpi else []
        name = "Open MPI" if is_open_mpi else "MPICH"
        commands[name] = [launcher, *options, "-np", str(peers), str(program), "REPORT"]
    return commands


def measure(command: list[str], size: int) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        line = [str(report) if word == "REPORT" else word for word in command]
        subprocess.run(
            [*line, str(size)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            timeout=SECONDS_PER_RUN,
        )
        return float(report.read_text().split()[1])


def show_bytes(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def show_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def table(commands: Commands, sizes: list[int], rounds: int) -> Iterator[str]:
    yield "| | " + " | ".join(show_bytes(size) for size in sizes) + " |"
    yield "|---" * (1 + len(sizes)) + "|"
    figures: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for size in sizes:
            for name, command in commands.items():
                figures[name][size].append(measure(command, size))
    for name, by_size in figures.items():
        cells = (show_seconds(statistics.median(by_size[size])) for size in sizes)
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=Path, default=ROOT / "build/core/benchmarks")
    parser.add_argument("--mpi", nargs="*", default=[os.environ["PATH"]])
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        for peers in options.peers:
            print(f"\n{peers} processes on {cores} cores\n")
            commands = {
                **core(options.programs, peers),
                **mpi(options.mpi, Path(scratch), peers),
                **limits(options.programs, peers),
            }
            for line in table(commands, options.sizes, options.rounds):
                print(line, flush=True)


if __name__ == "__main__":
    main()
