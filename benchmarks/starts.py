"""Seconds from the command to the first step, and memory, of four peers by each launcher.

Writes `results/starts.md` and `results/starts.png`. A launcher that is not there is left out.

    PYTHONPATH=. .venv/engines/bin/python benchmarks/starts.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import report
from matplotlib.figure import Figure
from measure import KUNGFU_RUN, environment

from tests.python.cluster.shared import slurm

PROGRAM = Path(__file__).parent / "programs" / "first_step.py"
PEERS, SECONDS = 4, 400
MIB = 1 << 20
PYTHON = (sys.executable, str(PROGRAM))


class Start(NamedTuple):
    """Seconds until the engine's session is up and until the first step ends; bytes."""

    session: float
    step: float
    peer: float
    all: float


Starts = dict[str, list[Start]]  # by launcher, one of each round


@contextlib.contextmanager
def launchers() -> Iterator[dict[str, tuple[Sequence[str], Sequence[str], Mapping[str, str]]]]:
    """Of each that is there: what precedes the report, what follows it, and its environment."""
    number = str(PEERS)
    found: dict[str, tuple[Sequence[str], Sequence[str], Mapping[str, str]]] = {
        "kungfu-run": ([*KUNGFU_RUN, "-q", "-np", number, *PYTHON], [], {})
    }
    if mpirun := shutil.which("mpirun"):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        words = [mpirun, *root, "--oversubscribe", "--bind-to", "none", "-np", number]
        found["Open MPI's mpirun"] = ([*words, *PYTHON], [], {})
    if torchrun := shutil.which("torchrun"):
        words = [torchrun, "--nproc-per-node", number, "--no-python"]
        found["torchrun"] = ([*words, *PYTHON], [], {})
    for name, package in (("ray", "ray"), ("spark", "pyspark")):
        if importlib.util.find_spec(package) is not None:
            environ = {"PYSPARK_PYTHON": sys.executable, "RAY_USAGE_STATS_ENABLED": "0"}
            found[name.title()] = (PYTHON, [name], environ)
    with contextlib.ExitStack() as stack:
        if slurm.why_not() is None:
            cluster = slurm.Slurm(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            stack.callback(cluster.stop)
            cluster.start()
            srun = ["srun", "--nodes", number, "--ntasks", number, *PYTHON]
            found["Slurm's srun"] = (srun, [], cluster.environ)
        yield found


def once(before: Sequence[str], after: Sequence[str], environ: Mapping[str, str]) -> Start:
    mark = secrets.token_hex(8)
    everything = {**environment(1), **environ, "BENCHMARK_MARK": mark}
    everything["KUNGFU_SECRET"] = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "report"
        began = time.time()
        command = [*before, str(path), *after]
        subprocess.run(command, env=everything, check=True, timeout=SECONDS, stdout=sys.stderr)
        line = json.loads(path.read_text())
    session = max(0.0, line["session"] - began)
    return Start(session, line["ended"] - began, line["peer"], line["all"])


def measured(rounds: int) -> Starts:
    starts: Starts = defaultdict(list)
    with launchers() as found:
        for _ in range(rounds):
            for name, words in found.items():
                starts[name].append(once(*words))
                print(name, starts[name][-1], file=sys.stderr, flush=True)
    return starts


def median(starts: Sequence[Start]) -> Start:
    return Start(*map(statistics.median, zip(*starts, strict=True)))


def table(starts: Starts) -> Iterator[str]:
    """Markdown."""
    yield "| launcher | session | first step | from to | a peer | all, for each peer |"
    yield "|---|---|---|---|---|---|"
    for name, several in starts.items():
        middle = median(several)
        least, most = report.ends([start.step for start in several])
        session = f"{middle.session:.1f} s" if middle.session else ""
        memory = f"{middle.peer / MIB:.0f} MiB | {middle.all / PEERS / MIB:.0f} MiB"
        span = f"{least:.1f} to {most:.1f} s"
        yield f"| {name} | {session} | {middle.step:.1f} s | {span} | {memory} |"


def plot(starts: Starts) -> Figure:
    """Seconds and memory in bars."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names, middles = list(starts), [median(several) for several in starts.values()]
    left.barh(names, [start.step for start in middles], label="first step")
    left.barh(names, [start.session for start in middles], label="session of the engine")
    left.set(xlabel="seconds from the command")
    right.barh(names, [start.all / PEERS / MIB for start in middles], label="all")
    right.barh(names, [start.peer / MIB for start in middles], label="the peer's process")
    right.set(xlabel="MiB for each peer")
    for axes in (left, right):
        axes.legend()
        axes.grid(alpha=0.3, axis="x")
    left.invert_yaxis()
    return figure


def main() -> None:
    options = report.parser(__doc__ or "", rounds=3).parse_args()
    starts = measured(options.rounds)
    body = [
        f"{PEERS} peers on this machine: from the command to the end of the first step of a `fit`, "
        "with the import of TensorFlow. Medians of the rounds. A session is what Ray and Spark "
        "start before a job, and Slurm's daemons run already. Memory is the proportional set size "
        "after that step: of a peer's process, and of all processes that the command has started. "
        f"The machine's load was {os.getloadavg()[2]:.1f} in the last 15 minutes.",
        "",
        *table(starts),
    ]
    title = f"Starts of {PEERS} peers by each launcher"
    report.write(options.results / "starts", title, body, plot(starts))


if __name__ == "__main__":
    main()
