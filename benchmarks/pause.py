"""How long a `fit` of four peers stands still when a peer, a host or a connection is lost.

Writes `results/pause.md` and `results/pause.png`. For root: hosts are network namespaces.

    python benchmarks/pause.py [--rounds 10] [--results DIR]
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import hosts
import report
from faulty_job import Job, pause, take_over
from matplotlib.figure import Figure
from systems import PROGRAMS, VENVS

PEERS = 4
PARTITION = 3.0  # seconds
KILL, SPARE, RESET = "a process is killed", "a spare takes over", "connections are reset"
CUT, HOST = f"a cable is out for {PARTITION:.0f} s", "a host is cut off for good"
ANEW, HOROVOD = "a process is killed, `-auto-recover`", "a process is killed, Horovod Elastic"
TARGETS = {KILL: 1.0, SPARE: 1.5, RESET: 0.5, CUT: 4.0, HOST: 7.0, ANEW: None, HOROVOD: None}
Pauses = dict[str, list[float]]  # seconds beyond a step, by what happens


def program(folder: Path, *more: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / "pause.py"), str(folder), *more]


@contextlib.contextmanager
def job(*options: str, backup: bool = False) -> Iterator[Job]:
    """Four peers on this host, which have made some steps."""
    with tempfile.TemporaryDirectory() as name:
        launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-np", str(PEERS), *options]
        command = [*launcher, *program(Path(name), *(["backup"] if backup else []))]
        with Job([command], Path(name), {}) as made:
            made.go_on(PEERS)
            yield made


def of_kills(pauses: Pauses) -> None:
    """Rank 0 is the first, then the last one."""
    with job("-on-failure", "survive") as made:
        for rank, left in ((0, PEERS - 1), (-1, PEERS - 2)):
            steps, began = made.after(lambda rank=rank: made.kill(rank), left)
            pauses[KILL].append(pause(steps, began))


def of_spares(pauses: Pauses) -> None:
    with job("-spares", "2", "-H", f"127.0.0.1:{PEERS + 2}") as made:
        for rank in (0, -1):
            steps, began = made.after(lambda rank=rank: made.kill(rank), PEERS)
            pauses[SPARE].append(take_over(steps, began))


def of_hosts(pauses: Pauses) -> None:
    """Two hosts with two peers each."""
    survive = ["-on-failure", "survive"]
    with hosts.network(2) as names, tempfile.TemporaryDirectory() as folder:
        words = [*survive, *program(Path(folder))]
        commands = [hosts.command_on(name, len(names), PEERS, words) for name in names]

        def cable(state: str) -> None:
            hosts.ip("-n", names[1], "link", "set", "eth0", state)

        def partition() -> None:
            cable("down")
            time.sleep(PARTITION)
            cable("up")

        with Job(commands, Path(folder), hosts.of_a_job({})) as made:
            made.go_on(PEERS)
            for rank in (0, -1):
                reset = made.pid(rank)
                steps, began = made.after(lambda pid=reset: os.kill(pid, signal.SIGUSR1), PEERS)
                pauses[RESET].append(pause(steps, began))
            steps, began = made.after(partition, PEERS)
            pauses[CUT].append(pause(steps, began))
            steps, began = made.after(lambda: cable("down"), PEERS // 2)
            pauses[HOST].append(pause(steps, began))


def of_a_job_anew(pauses: Pauses) -> None:
    with job("-auto-recover", "10s", backup=True) as made:
        steps, began = made.after(lambda: made.kill(-1), PEERS)
        pauses[ANEW].append(pause(steps, began))


def of_horovod(pauses: Pauses) -> None:
    """Two names of this host stand for two hosts: it goes on without the one that lost a peer."""
    folder = VENVS / "horovod" / "bin"
    if not (folder / "horovodrun").exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        script, logs = Path(scratch) / "hosts.sh", Path(scratch) / "logs"
        logs.mkdir()
        script.write_text(f"#!/bin/sh\necho localhost:{PEERS // 2}\necho 127.0.0.1:{PEERS // 2}\n")
        script.chmod(0o755)
        sizes = ["-np", str(PEERS), "--min-np", str(PEERS // 2), "--max-np", str(PEERS)]
        launcher = [str(folder / "horovodrun"), "--gloo", *sizes]
        words = [str(folder / "python"), str(PROGRAMS / "pause_horovod.py"), str(logs)]
        command = [*launcher, "--host-discovery-script", str(script), *words]
        with Job([command], logs, {"PATH": f"{folder}:{os.environ['PATH']}"}) as made:
            made.go_on(PEERS)
            steps, began = made.after(lambda: made.kill(-1), PEERS // 2)
            pauses[HOROVOD].append(pause(steps, began))


def measured(rounds: int) -> Pauses:
    """All in turns. What has no result in one round has none from there on."""
    pauses: Pauses = defaultdict(list)
    able = [of_kills, of_spares, of_hosts, of_a_job_anew, of_horovod]
    for number in range(rounds):
        for measure in able[:]:
            print(f"{number + 1}/{rounds}: {measure.__name__}", file=sys.stderr, flush=True)
            try:
                measure(pauses)
            except TimeoutError as error:
                print(error, file=sys.stderr)
                able.remove(measure)
        print(dict(pauses), file=sys.stderr, flush=True)
    return pauses


def table(pauses: Pauses) -> Iterator[str]:
    """Markdown."""
    yield "| what happens | times | pause | at most | target | |"
    yield "|---|---|---|---|---|---|"
    for what, target in TARGETS.items():
        if not (seconds := pauses.get(what)):
            yield f"| {what} | 0 | no result | | | |"
            continue
        middle = statistics.median(seconds)
        bound, verdict = "", ""
        if target is not None:
            bound, verdict = f"{target:g} s", "reached" if middle <= target else "missed"
        row = (what, str(len(seconds)), f"{middle:.2f} s", f"{max(seconds):.2f} s", bound, verdict)
        yield f"| {' | '.join(row)} |"


def plot(pauses: Pauses) -> Figure:
    """Each pause, and the targets."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    for row, (what, target) in enumerate(TARGETS.items()):
        seconds: Sequence[float] = pauses.get(what, [])
        axes.plot(seconds, [row] * len(seconds), "o", alpha=0.5)
        if target is not None:
            axes.plot(target, row, "|", color="black", markersize=18)
    axes.set_yticks(range(len(TARGETS)), [what.replace("`", "") for what in TARGETS])
    axes.set(xscale="log", xlabel="seconds beyond a step; |: target", title="Pauses of `fit`")
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    return figure


def main() -> None:
    options = report.parser(__doc__ or "", rounds=10).parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces, which only root can make")
    pauses = measured(options.rounds)
    body = [
        f"`fit` of a model of 0.7 million parameters, {PEERS} peers. A pause is the longest time "
        "without a new step, less a usual step. A repeated step is not new. Of a spare it is the "
        "time to the end of its first step. Hosts are network namespaces with two peers each. "
        "With `-auto-recover` there is a backup after each epoch of 50 steps; Horovod 0.28.1 "
        "commits each step, on TensorFlow 2.15. The median is shown. "
        f"The machine's load was {os.getloadavg()[2]:.1f} in the last 15 minutes.",
        "",
        *table(pauses),
    ]
    title = "Pauses of `fit` when something is lost"
    report.write(options.results / "pause", title, body, plot(pauses))


if __name__ == "__main__":
    main()
