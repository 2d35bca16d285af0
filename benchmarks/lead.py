"""How long `fit` stands still when the leading runner is lost, and another one leads, by etcd.

Writes `results/lead.md` and `results/lead.png`. For root: hosts are network namespaces.

    PYTHONPATH=. python benchmarks/lead.py [--rounds 5] [--results DIR]
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hosts
import report
from faulty_job import Job, pause
from matplotlib.figure import Figure
from systems import PROGRAMS

from tests import etcd_server

PEERS, TARGET = 4, 10.0
KILLED, CUT = "the leading runner is killed", "its host is cut off"
Pauses = dict[str, list[float]]  # seconds beyond a step, by what happens


def once(what: str) -> float:
    """Two hosts with two peers each, and a third one with etcd."""
    with (
        hosts.network(3) as names,
        tempfile.TemporaryDirectory() as data,
        tempfile.TemporaryDirectory() as logs,
    ):
        of_etcd = {"address": hosts.address(2), "through": ("ip", "netns", "exec", names[2])}
        with etcd_server.running(Path(data), **of_etcd) as etcd:
            survive = ["-on-failure", "survive", "-config-server", f"etcd://{etcd.place}/job"]
            program = [*survive, sys.executable, str(PROGRAMS / "pause.py"), logs]
            commands = [hosts.command_on(name, 2, PEERS, program) for name in names[:2]]
            with Job(commands, Path(logs), hosts.of_a_job({})) as job:
                job.go_on(PEERS)

                def fault() -> None:
                    if what == KILLED:
                        job.kill_launcher(0)
                    else:
                        hosts.ip("-n", names[0], "link", "set", "eth0", "down")

                return pause(*job.after(fault, PEERS // 2))


def measured(rounds: int) -> Pauses:
    pauses: Pauses = defaultdict(list)
    for _ in range(rounds):
        for what in (KILLED, CUT):
            pauses[what].append(once(what))
            print(what, pauses[what][-1], file=sys.stderr, flush=True)
    return pauses


def table(pauses: Pauses) -> Iterator[str]:
    """Markdown."""
    yield "| what happens | times | pause | at most | target | |"
    yield "|---|---|---|---|---|---|"
    for what, seconds in pauses.items():
        middle, most = f"{statistics.median(seconds):.2f} s", f"{max(seconds):.2f} s"
        verdict = "reached" if max(seconds) <= TARGET else "missed"
        yield f"| {what} | {len(seconds)} | {middle} | {most} | {TARGET:g} s | {verdict} |"


def plot(pauses: Pauses) -> Figure:
    """Each pause, and the target."""
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes = figure.subplots()
    for row, seconds in enumerate(pauses.values()):
        axes.plot(seconds, [row] * len(seconds), "o", alpha=0.5)
    axes.axvline(TARGET, color="black", linestyle="--")
    axes.set_yticks(range(len(pauses)), list(pauses))
    axes.set(xlim=(0, None), ylim=(1.5, -0.5), xlabel="seconds beyond a step; dashed: target")
    axes.grid(alpha=0.3)
    return figure


def main() -> None:
    options = report.parser(__doc__ or "", rounds=5).parse_args()
    if os.geteuid() != 0 or shutil.which("etcd") is None:
        sys.exit("needs etcd, and root for hosts that are network namespaces")
    pauses = measured(options.rounds)
    body = [
        f"`fit` of {PEERS} peers on two hosts, with `-on-failure survive` and a lease in etcd on a "
        "third one. The first host is lost, and its runner led. A pause is the longest time "
        "without a new step, less a usual step. The median is shown, and none may be over the "
        f"target. The machine's load was {os.getloadavg()[2]:.1f} in the last 15 minutes.",
        "",
        *table(pauses),
    ]
    title = "Pauses of `fit` when another runner must lead"
    report.write(options.results / "lead", title, body, plot(pauses))


if __name__ == "__main__":
    main()
