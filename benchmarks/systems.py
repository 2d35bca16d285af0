"""The systems that are installed, and how the programs are started on each.

`make bench-peers` installs those that can be had, each in a virtual environment of its own.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Container, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benchmarks" / "programs"
BINARIES = ROOT / "build" / "core" / "benchmarks"
VENVS = ROOT / ".venv"
CORES = len(os.sched_getaffinity(0))

OURS = "kungfu_tf"
OURS_2_15 = "kungfu_tf, TF 2.15"
HOROVOD_MPI = "Horovod (Open MPI)"
HOROVOD_GLOO = "Horovod (Gloo)"
MULTI_WORKER = "MultiWorkerMirrored RING"
OPEN_MPI = "Open MPI"
MPICH = "MPICH"
GLOO = "PyTorch gloo"
SHARED = "core, shared memory"
ORDINARY = "core, ordinary memory"
CORE_HOSTS = "core, two hosts"
GLOO_HOSTS = f"{GLOO}, two hosts"


def vectors() -> list[str]:
    """The core's loops for this processor's vector instructions; it takes the last, the widest."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    widths = {"avx2": "avx2", "avx512": "avx512_vbmi2"}
    return [name for name, flag in widths.items() if flag in flags]


# Processes that do not know of each other: adapter, and what is measured.
ALONE = {
    "each alone": ("alone", ["loop", "fit", "memory"]),
    "each alone, in step": ("in_step", ["fit"]),
    "each alone, asynchronous": ("asynchronous", ["loop"]),
}

# What a machine may lack, by what it takes to have it.
TAKES = {
    "`make bench-peers` installs these.": (OPEN_MPI, MPICH, GLOO, HOROVOD_MPI, HOROVOD_GLOO),
    "`make setup` installs these, if there is Python 3.10 or 3.11.": (OURS_2_15, MULTI_WORKER),
    "Hosts are network namespaces here: they take root and `ip`.": (CORE_HOSTS,),
}


@dataclasses.dataclass(frozen=True)
class System:
    """What can be measured of one.

    Attributes:
        name: In tables.
        start: The words that start so many processes of the program that follows them.
        programs: By what they measure; REPORT and keys follow.
        environ: Beside that of this process.
        peers: Of how many processes it can consist; None: of any number.
    """

    name: str
    start: Callable[[int], list[str]]
    programs: dict[str, list[str]]
    environ: dict[str, str] = dataclasses.field(default_factory=dict)
    peers: int | None = None


def installed() -> dict[str, System]:
    """By their names."""
    systems = [*_core(), *_limits(), *_mpi(), *_gloo(), *_in_tensorflow(), *_horovod()]
    return {system.name: system for system in systems}


def absent(here: Container[str]) -> list[str]:
    """Of all that can be measured, the names that are not among these."""
    return [name for names in TAKES.values() for name in names if name not in here]


def notes_on(names: Container[str]) -> list[str]:
    """Sentences: what is left out, and what it takes."""
    notes = []
    for what, of_that in TAKES.items():
        if left_out := [name for name in of_that if name in names]:
            notes.append(f"Left out: {'; '.join(left_out)}. {what}")
    return notes


def by_kungfu_run(peers: int) -> list[str]:
    return [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", str(peers)]


def _core() -> list[System]:
    program = str(BINARIES / "benchmark_core")
    return [
        System(SHARED, by_kungfu_run, _of_arrays(program, "shared")),
        System(ORDINARY, by_kungfu_run, _of_arrays(program, "ordinary")),
        *(
            System(
                f"core, {name}",
                by_kungfu_run,
                _of_arrays(program, "ordinary"),
                {"KUNGFU_TRANSPORT": transport},
            )
            for name, transport in (("Unix sockets", "unix"), ("TCP", "tcp"))
        ),
        System("core, many", by_kungfu_run, {"many": [str(BINARIES / "benchmark_many")]}),
        *_on_two_hosts(CORE_HOSTS, _of_arrays(program, "ordinary")),
    ]


def _of_arrays(*program: str) -> dict[str, list[str]]:
    """One that sums whatever arrays it is told to."""
    return {"sums": [*program], "sets": [*program]}


def _on_two_hosts(name: str, programs: dict[str, list[str]]) -> list[System]:
    """Two processes, each in a network of its own, where there may be such."""
    if not may_have_hosts():
        return []
    return [System(name, by_two_hosts, programs, peers=2)]


def may_have_hosts() -> bool:
    """Whether networks can be made here, each as that of a host."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


def by_two_hosts(peers: int) -> list[str]:
    """Starts half of the processes on each of two hosts."""
    return [sys.executable, str(ROOT / "benchmarks" / "hosts.py"), str(peers)]


def _limits() -> list[System]:
    """What the machine allows two processes that spin."""
    memory = [limit_of_memory(kind) for kind in ("memcpy", "zero-copy", "copy-in", "read")]
    return [*memory, *(_limit("TCP", "loopback", kind) for kind in ("one-way", "both-ways"))]


def limit_of_memory(kind: str) -> System:
    """A bare loop of `programs/limits.cc`."""
    return _limit("memory", "limits", kind)


def _limit(of: str, program: str, kind: str) -> System:
    programs = {"sums": [str(BINARIES / f"benchmark_{program}"), kind]}
    return System(f"limit: {of}, {kind}", lambda _peers: [], programs, peers=2)


def _mpi() -> list[System]:
    systems = []
    for name, folder in ((OPEN_MPI, "open-mpi"), (MPICH, "mpich")):
        place = f"{VENVS / folder / 'bin'}:{os.environ['PATH']}"
        compiler, launcher = (shutil.which(tool, path=place) for tool in ("mpicxx", "mpirun"))
        if not (compiler and launcher and _is(name, launcher)):
            continue
        if program := _compiled(compiler, folder):
            start = _by_mpirun(launcher, is_open_mpi=name == OPEN_MPI)
            systems.append(System(name, start, _of_arrays(str(program))))
    return systems


def _is(name: str, launcher: str) -> bool:
    """An mpirun of the PATH may be the other one's."""
    version = subprocess.run([launcher, "--version"], capture_output=True, text=True).stdout
    return ("Open MPI" in version) == (name == OPEN_MPI)


def _compiled(compiler: str, folder: str) -> Path | None:
    """None, and a line, where there is a compiler but no headers."""
    program = ROOT / "build" / f"benchmark-{folder}"
    source = PROGRAMS / "mpi.cc"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        command = [compiler, "-O2", "-std=c++17", f"-I{ROOT}", str(source), "-o", str(program)]
        if subprocess.run(command).returncode != 0:
            print(f"{folder}: {compiler} cannot compile {source.name}: left out", file=sys.stderr)
            return None
    return program


def _by_mpirun(launcher: str, *, is_open_mpi: bool) -> Callable[[int], list[str]]:
    options = ["--oversubscribe", "--allow-run-as-root"] if is_open_mpi else []
    return lambda peers: [launcher, *options, "-np", str(peers)]


def _gloo() -> list[System]:
    python = VENVS / "gloo" / "bin" / "python"
    if not python.exists():
        return []
    programs = _of_arrays(str(python), str(PROGRAMS / "gloo.py"))
    return [System(GLOO, by_kungfu_run, programs), *_on_two_hosts(GLOO_HOSTS, programs)]


def _tensorflow(python: Path, module: str, measured: Sequence[str]) -> dict[str, list[str]]:
    """The programs that run in TensorFlow."""
    in_function = [str(python), str(PROGRAMS / "in_function.py"), module]
    own = {kind: [str(python), str(PROGRAMS / f"{kind}.py"), module] for kind in ("fit", "memory")}
    return {kind: own.get(kind, [*in_function, kind]) for kind in measured}


def _in_tensorflow() -> list[System]:
    everything = ("call", "loop", "gradients", "fit", "memory")
    systems = []
    for name, folder in ((OURS, "tf-2.21"), (OURS_2_15, "tf-2.15")):
        python = VENVS / folder / "bin" / "python"
        if python.exists():
            programs = _tensorflow(python, "kungfu_tf", everything)
            systems.append(System(name, by_kungfu_run, programs))
            version = folder.removeprefix("tf-")
            for words, (adapter, measured) in ALONE.items():
                programs = _tensorflow(python, adapter, measured)
                systems.append(System(f"{words}, TF {version}", by_kungfu_run, programs))
    python = VENVS / "tf-2.15" / "bin" / "python"
    if python.exists():
        programs = _tensorflow(python, "multi_worker", ("call", "gradients", "fit"))
        systems.append(System(MULTI_WORKER, by_kungfu_run, programs))
    return systems


def _horovod() -> list[System]:
    folder = VENVS / "horovod" / "bin"
    if not (folder / "horovodrun").exists():
        return []
    programs = _tensorflow(folder / "python", "horovod_tf", ("call", "loop", "gradients", "fit"))
    by_mpirun = _by_mpirun(str(folder / "mpirun"), is_open_mpi=True)
    gloo = [str(folder / "horovodrun"), "--gloo"]
    return [
        System(HOROVOD_MPI, by_mpirun, programs, {"PATH": f"{folder}:{os.environ['PATH']}"}),
        System(HOROVOD_GLOO, lambda peers: [*gloo, "-np", str(peers)], programs),
    ]
