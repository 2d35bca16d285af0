"""Nothing of a job outlives it, whoever is killed. The fixture asserts that nothing remains."""

import contextlib
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PYTHON = (sys.executable, "-S", "-c")

WORKER = """
import ctypes, os, signal, subprocess, sys
def work():
    print("ready", flush=True)
    while True:
        signal.pause()
"""

# What a shell or a program may put between the launcher and the process that works.
BETWEEN = {
    "nothing": (*PYTHON, WORKER + "work()"),
    "a shell that waits": ("bash", "-c", '"$0" "$@" & wait', *PYTHON, WORKER + "work()"),
    "a shell in a shell": (
        *("bash", "-c", 'bash -c "$(printf "%q " "$0" "$@") & wait" & wait'),
        *(*PYTHON, WORKER + "work()"),
    ),
    "a worker in its own session": (
        *PYTHON,
        WORKER + "if os.fork() == 0:\n    os.setsid()\nwork()",
    ),
    "an orphan in its own session": (
        *PYTHON,
        WORKER
        + "if os.fork() == 0:\n    os.setsid()\n    if os.fork():\n        os._exit(0)\nwork()",
    ),
    "a worker that ignores signals": (
        *PYTHON,
        WORKER
        + "for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\nos.fork()\nwork()",
    ),
    "a worker that overwrites its environment": (
        *PYTHON,
        WORKER
        + """
if os.fork() == 0:
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    lengths = [len(ctypes.string_at(strings[i])) for i in range(len(os.environ))]
    for i, length in enumerate(lengths):
        ctypes.memset(strings[i], ord("x"), length)
work()
""",
    ),
    "a stopped worker": (
        *PYTHON,
        WORKER
        + """
worker = os.fork()
if worker == 0:
    os.setsid()
    work()
os.kill(worker, signal.SIGSTOP)
os.waitpid(worker, os.WUNTRACED)
print("ready", flush=True)
work()
""",
    ),
    "another launcher": (
        *(sys.executable, "-m", "kungfu_tf.launcher", "-np", "2"),
        *(*PYTHON, WORKER + "work()"),
    ),
}
DAILY = ("nothing", "an orphan in its own session", "a worker that overwrites its environment")
WORKERS = {"nothing": 2, "a shell that waits": 2, "a shell in a shell": 2, "a stopped worker": 2}


MARKED = [
    one if one in DAILY else pytest.param(one, marks=pytest.mark.exhaustive) for one in BETWEEN
]


def start(kungfu_run: "Jobs", between: str) -> None:
    # The folder on the command line is what a process that has lost its environment is found by.
    mark = str(kungfu_run.temporary)
    launch = kungfu_run("-np", "2", *BETWEEN[between], mark, KUNGFU_GRACE="0.5")
    launch.until_printed("ready", times=WORKERS.get(between, 4))


@pytest.mark.parametrize("between", MARKED)
def test_when_the_launcher_is_killed(kungfu_run: "Jobs", between: str) -> None:
    start(kungfu_run, between)
    kungfu_run.launches[0].process.kill()


@pytest.mark.parametrize("between", MARKED)
def test_when_the_job_is_interrupted(kungfu_run: "Jobs", between: str) -> None:
    start(kungfu_run, between)
    kungfu_run.launches[0].process.send_signal(signal.SIGINT)
    assert kungfu_run.launches[0].wait() == 130


def test_when_a_peer_leaves_a_worker_behind_and_ends_well(kungfu_run: "Jobs") -> None:
    program = "if os.fork() == 0:\n    os.setsid()\n    work()\n"
    launch = kungfu_run("-np", "2", *PYTHON, WORKER + program)
    assert launch.wait() == 0
    assert "stopping processes that the peers left behind: pid " in launch.err


def test_when_the_sweeper_is_killed_it_is_replaced(kungfu_run: "Jobs") -> None:
    start(kungfu_run, "an orphan in its own session")

    def sweepers() -> set[int]:
        return {pid for pid, text in kungfu_run.living().items() if "sweeper.py" in text}

    (first,) = sweepers()
    os.kill(first, signal.SIGKILL)
    kungfu_run.until(lambda: sweepers() - {first}, lambda: "another sweeper")
    kungfu_run.launches[0].process.kill()


def test_when_the_launcher_and_a_peer_are_killed_at_once(kungfu_run: "Jobs") -> None:
    start(kungfu_run, "an orphan in its own session")
    launcher = kungfu_run.launches[0].process.pid
    living = kungfu_run.living()
    others = [pid for pid, text in living.items() if pid != launcher and "sweeper.py" not in text]
    peers = [pid for pid in others if os.getpgid(pid) == pid]
    os.kill(launcher, signal.SIGKILL)
    for pid in peers:
        with contextlib.suppress(ProcessLookupError):  # the kernel was faster
            os.kill(pid, signal.SIGKILL)


def test_when_the_sweeper_is_killed_just_before_the_launcher(kungfu_run: "Jobs") -> None:
    start(kungfu_run, "nothing")
    launcher = kungfu_run.launches[0].process
    launcher.send_signal(signal.SIGSTOP)
    for pid, text in kungfu_run.living().items():
        if "sweeper.py" in text:
            os.kill(pid, signal.SIGKILL)
    launcher.kill()
    launcher.wait()
    kungfu_run.until(lambda: not kungfu_run.living(), lambda: f"the end of {kungfu_run.living()}")
    # Nobody is left who could remove the directory.
    (directory,) = kungfu_run.temporary.iterdir()
    shutil.rmtree(directory)
