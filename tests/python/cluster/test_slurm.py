"""Tasks of Slurm are the peers of one job, on four nodes of this machine."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm
from foreign import PROGRAM, SECRET, SUMS, ends, fit, resized, sums, written
from harness import warm
from harness.launch import environment
from slurm import Slurm

from docs.tools import pages
from tests import ports, waiting


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    if (why_not := slurm.why_not()) is not None:
        pytest.skip(why_not)
    with tempfile.TemporaryDirectory(prefix="kfs") as folder:
        made = Slurm(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()


def test_fit_by_slurm(cluster: Slurm, expected: list[str], home: Path) -> None:
    srun = ["srun", "--nodes=2", "--ntasks=2"]
    ((code, out, error),) = ends([*srun, *fit(home)], [cluster.environ])
    assert code == 0, out + error
    assert written(home, 2) == expected


def test_a_task_of_slurm_that_dies_ends_the_others(cluster: Slurm, home: Path) -> None:
    srun = ["srun", "--nodes=3", "--ntasks=5", "--label"]  # two, two and one
    ((code, out, error),) = ends([*srun, *sums("1")], [cluster.environ])
    assert code != 0
    told = sorted(out.splitlines())
    assert told == [f"{n}: {n} 5 {n} 5 40" for n in range(5)], out + error
    for rank in (0, 2, 3, 4):
        assert re.search(rf"^{rank}: error: .*rank 1 \(127", error, re.MULTILINE), error


def test_steps_of_one_job_of_slurm_are_jobs_of_their_own(cluster: Slurm, home: Path) -> None:
    step = f"srun --exact --ntasks=2 {sys.executable} -c '{SUMS}'"
    script = f"{step} & {step} & wait"
    salloc = ["salloc", "--quiet", "--ntasks=4", "bash", "-c", script]
    ((code, out, error),) = ends(salloc, [cluster.environ])
    assert code == 0, out + error
    assert sorted(out.splitlines()) == sorted(2 * ["0 2 0 2 10", "1 2 1 2 10"]), out + error


def kungfu_run_on_nodes() -> str:
    """The shell command of kungfu-run on a node, which it is told: all nodes are one host."""
    runner, *others = ports.take(10)
    flags = ["-H", ",".join(f"{node}:1" for node in slurm.NODES), "-port", str(runner)]
    flags += ["-port-range", f"{others[0]}-{others[-1]}"]
    launcher = shlex.join([sys.executable, "-m", "kungfu_tf.launcher", *flags])
    return f'{launcher} -self "$SLURMD_NODENAME" "$@"'


def test_a_job_of_slurm_grows_and_shrinks_on_its_nodes(cluster: Slurm, home: Path) -> None:
    kungfu_run = ["sh", "-c", f"exec {kungfu_run_on_nodes()}", "-", "-w", "-np", "2"]
    srun = ["srun", "--nodes=4", "--ntasks-per-node=1", *kungfu_run, *resized(4, 1)]
    environ = {**cluster.environ, "KUNGFU_SECRET": SECRET, "NO_COLOR": "1"}
    ((code, out, error),) = ends(srun, [environ])
    assert code == 0, out + error
    of_all = {f"[{node}:{rank}] {rank} 4 0 1" for rank, node in enumerate(slurm.NODES)}
    assert {*out.splitlines()} == {*of_all, f"[{slurm.NODES[0]}:0] 0 1 0 1"}, error


class Queue:
    """Submits scripts of the guide to Slurm.

    Args:
        cluster: The cluster.
        home: The folder of the scripts, and of what the programs write.
        monkeypatch: Changes the environment of the scripts.
    """

    def __init__(self, cluster: Slurm, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cluster = cluster
        self._home = home
        self._python = warm.python(environment())
        for name, text in environment({"PATH": f"{home}:{os.environ['PATH']}"}).items():
            monkeypatch.setenv(name, text)

    def command(self, name: str, text: str) -> None:
        """Makes a command of that name, which is this one of a shell."""
        path = self._home / name
        path.write_text(f"#!/bin/sh\nexec {text}\n")
        path.chmod(0o755)

    def program(self, name: str) -> None:
        """Makes that of a folder the one that `python` runs."""
        self.command("python", shlex.join([*self._python, str(PROGRAM.with_name(name))]))

    def requeued(self, title: str) -> str:
        """Runs a script that is requeued once. What is known of it at its end."""
        text = (pages.DOCS / "guides" / "started-by-others.md").read_text()
        script = next(
            part.text
            for part in pages.parts_of(text)
            if isinstance(part, pages.Block) and part.title == title
        )
        (self._home / title).write_text(script)
        submit = ["sbatch", "--parsable", f"--chdir={self._home}", str(self._home / title)]
        job = self._cluster.call(*submit).strip()

        def state() -> str:
            show = ["--noheader", "--states=all", f"--jobs={job}", "--format=%T %r"]
            return self._cluster.call("squeue", *show)

        def said() -> str:
            return f"{state()}: " + "".join(
                file.read_text() for file in self._home.glob("slurm-*.out")
            )

        ended = "COMPLETED|FAILED|CANCELLED|TIMEOUT"
        waiting.until(lambda: re.search(f"PENDING BeginTime|{ended}", state()), said)
        # It would be in two minutes.
        self._cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now+2")
        waiting.until(lambda: re.search(ended, state()), said)
        return said()


@pytest.fixture
def queue(cluster: Slurm, home: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return Queue(cluster, home, monkeypatch)


def test_the_script_of_the_guide_goes_on_when_it_is_requeued(queue: Queue, home: Path) -> None:
    queue.program("requeued.py")
    said = queue.requeued("job.sh")
    assert told(home) == 4 * ["1 [2, 3]\n"], said


def test_a_job_of_slurm_saves_on_notice_and_goes_on(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that it goes on without a peer that is killed."""
    monkeypatch.setenv("KUNGFU_SECRET", SECRET)
    queue.command("kungfu-run", kungfu_run_on_nodes())
    queue.program("noticed.py")
    said = queue.requeued("long.sh")
    digests = {file.read_text() for file in home.glob("left-*")}
    assert len(digests) == 1, said
    began = [*digests, "", "", ""]
    assert told(home) == [f"{(1, 4, [2, 3], digest)}\n" for digest in began], said


def told(home: Path) -> list[str]:
    """What the four peers have written; nothing of one that has not."""
    files = [home / str(rank) for rank in range(4)]
    return [file.read_text() if file.exists() else "" for file in files]
