"""Peers that die, stop or never come: each of the others says who, what and why."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PROGRAM = """
import os, signal, sys, threading, time
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce, sent
core = libraries.core()
libraries.check(core.kungfu_init())
rank, size = core.kungfu_rank(), core.kungfu_size()
assert AllReduce("together", 10).wait()[0] == size
"""


def python(program: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", PROGRAM + program)


@pytest.mark.parametrize(
    ("transport", "strategy"),
    [
        ("shm", "CLIQUE"),
        ("tcp", "RING"),
        ("unix", "BINARY_TREE"),
        *[
            pytest.param(*both, marks=pytest.mark.exhaustive)
            for both in itertools.product(["shm", "tcp"], ["RING", "STAR", "CLIQUE", "BINARY_TREE"])
            if both not in [("shm", "CLIQUE"), ("tcp", "RING")]
        ],
    ],
)
def test_killed_in_the_middle(kungfu_run: "Jobs", transport: str, strategy: str) -> None:
    program = """
def killer():
    before = sent()
    while sent() == before:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
started = time.monotonic()
try:
    for step in range(1000):
        if rank == 2 and step == 1:
            threading.Thread(target=killer, daemon=True).start()
        AllReduce("conv1", 4 << 20).wait()
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
    print(f"late: {time.monotonic() - started > 30}", flush=True)
    sys.exit(1)
"""
    words = ("-np", "4", "-strategy", strategy, *python(program))
    launch = kungfu_run(*words, KUNGFU_TRANSPORT=transport, KUNGFU_GRACE="60")
    assert launch.wait() == 128 + signal.SIGKILL, launch.out + launch.err
    for rank in (0, 1, 3):
        said = [line for line in launch.out.splitlines() if line.startswith(f"[{rank}] error: ")]
        assert len(said) == 1, launch.out + launch.err
        assert "all_reduce 'conv1'" in said[0]
        assert "rank 2 (127.0.0.1:" in said[0]
    assert "late: True" not in launch.out
    assert "rank 2 on 127.0.0.1" in launch.err
    assert "failed first: killed by SIGKILL" in launch.err
    assert launch.err.count("reported: all_reduce 'conv1'") == 3


@pytest.mark.parametrize("since", ["start", "together"])
@pytest.mark.parametrize("memory", ["ordinary", "shared"])
@pytest.mark.parametrize("jobs", [6, pytest.param(25, marks=pytest.mark.exhaustive)])
def test_nothing_is_left_of_a_peer_killed_at_any_moment(
    kungfu_run: "Jobs", memory: str, since: str, jobs: int
) -> None:
    """Many jobs, each with one kill: while peers come together, or while they work.

    Ordinary memory takes the way through rings; in the shared one each peer works in that of all.
    """
    program = """
import os, random, signal, sys, threading, time
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
job, victim, memory, since = sys.argv[1:]
me = os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"])
is_victim = me == int(victim)
delay = random.Random(job).uniform(0, 0.3)
death = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL))
if is_victim and since == "start":
    death.start()
    if job == "0":
        death.join()
try:
    libraries.check(libraries.core().kungfu_init())
    AllReduce("together", 10).wait()
    with open("/proc/self/maps") as maps:
        print("rings:", "/memfd:kungfu (deleted)" in maps.read(), flush=True)
    if is_victim and since == "met":
        death.start()
    work = AllReduce("conv1", 2 << 20, shared=memory == "shared")
    work.wait()
    print("direct:", libraries.statistics()["direct"], flush=True)
    open(f"works-{me}", "w").close()
    if is_victim and since == "together":
        while sum(name.startswith("works-") for name in os.listdir()) < 2:
            time.sleep(0.001)
        death.start()
    while True:
        work.start().wait()
except errors.KungfuError:
    if is_victim:
        death.join()
    sys.exit(1)
"""
    named = set(os.listdir("/dev/shm"))
    had_met = set()
    for job in range(jobs):
        victim = job // 2 % 2
        # So some have met the other one, and some have not, however fast they are.
        begin = "met" if since == "start" and job % 2 else since
        command = (sys.executable, "-c", program, str(job), str(victim), memory, begin)
        launch = kungfu_run("-np", "2", *command, KUNGFU_TRANSPORT="shm", KUNGFU_GRACE="60")
        assert launch.wait() == 128 + signal.SIGKILL, launch.out + launch.err
        ends = [line for line in launch.err.splitlines() if "(pid " in line]
        assert sum("killed by SIGKILL" in line for line in ends) == 1, launch.err
        for said in ("rings: True", f"direct: {int(memory == 'shared')}"):
            times = launch.out.count(said)
            assert times == launch.out.count(said.split()[0]), launch.out
            assert since == "start" or times == 2, launch.out
        had_met.add(f"[{victim}] rings: " in launch.out)
        kungfu_run.nothing_remains()
    assert had_met == ({True, False} if since == "start" else {True})
    assert not [name for name in set(os.listdir("/dev/shm")) - named if "kungfu" in name]


def test_ended_well_before_it_was_ever_connected(kungfu_run: "Jobs") -> None:
    program = """
import os, sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
if os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"]) == 1:
    sys.exit(0)
libraries.check(libraries.core().kungfu_init())
try:
    AllReduce("x", 10).wait()
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
"""
    launch = kungfu_run("-np", "3", sys.executable, "-c", program)
    assert launch.wait() == 0, launch.out + launch.err
    for rank in (0, 2):
        said = [line for line in launch.out.splitlines() if line.startswith(f"[{rank}] error: ")]
        assert len(said) == 1, launch.out + launch.err
        assert "rank 1 (127.0.0.1:" in said[0]
        assert "has left (kungfu_tf docs: messages#peer-left)" in said[0]


def test_the_summary_names_the_peer_that_ended_in_the_middle_without_an_error(
    kungfu_run: "Jobs",
) -> None:
    program = """
if rank == 1:
    print("about to go", flush=True)
    os._exit(0)
try:
    AllReduce("x", 10).wait()
except errors.UnavailableError as error:
    sys.exit(f"error: {error}")
"""
    launch = kungfu_run("-np", "3", *python(program), KUNGFU_GRACE="60")
    assert launch.wait() == 1, launch.out + launch.err
    summary = [line for line in launch.complaints if line.startswith("kungfu-run: rank ")]
    assert len(summary) == 3, launch.err
    assert summary[0].startswith("kungfu-run: rank 1 on 127.0.0.1 (pid ")
    assert ") may have been waited for: exit code 0, after " in summary[0]
    assert "failed first: exit code 1" in summary[1]


def test_dead_before_it_was_ever_connected(kungfu_run: "Jobs") -> None:
    program = """
import os, sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
if os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"]) == 1:
    sys.exit(9)
libraries.check(libraries.core().kungfu_init())
try:
    AllReduce("x", 10).wait()
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""
    launch = kungfu_run("-np", "3", sys.executable, "-c", program, KUNGFU_GRACE="60")
    assert launch.wait() == 9
    for rank in (0, 2):
        assert f"[{rank}] error: " in launch.out
    assert launch.out.count("rank 1 (127.0.0.1:") == 2
    assert launch.out.count("exit code 9") == 2


def test_a_peer_that_never_starts_is_named(kungfu_run: "Jobs") -> None:
    """It lives, and uses no peer: nobody has heard of it when the operation's time is over."""
    program = """
import os, signal, sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
if os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"]) == 1:
    signal.pause()
libraries.check(libraries.core().kungfu_init())
try:
    AllReduce("x", 10, timeout=2).wait()
except errors.DeadlineExceededError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""
    launch = kungfu_run("-np", "2", sys.executable, "-c", program)
    assert launch.wait() == 1
    assert "[0] error: all_reduce 'x' at rank 0" in launch.out
    assert "rank 1 (127.0.0.1:" in launch.out


def test_stopped_process_is_given_up(kungfu_run: "Jobs") -> None:
    program = """
if rank == 1:
    print(f"pid {os.getpid()}", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    AllReduce("x", 10).wait()
except errors.UnavailableError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""
    launch = kungfu_run(
        "-np", "2", *python(program), KUNGFU_STALL_WARNING="1", KUNGFU_SILENCE_TIMEOUT="4"
    )
    assert launch.wait() != 0
    assert "[0] error: all_reduce 'x': rank 1 (127.0.0.1:" in launch.out
    assert "does not answer" in launch.out


def test_who_waits_for_what_does_not_come_says_so(kungfu_run: "Jobs") -> None:
    program = """
import tensorflow as tf
import kungfu_tf as kf
queue = kf.ops.new_queue(0, 1, capacity=1, timeout=3)
requested = lambda: kf.ops.request_variable(1, name="x", shape=[], dtype=tf.int32, timeout=3)
for wait in (requested, lambda: (queue.put(1), queue.put(2))) if kf.is_root() else ():
    try:
        wait()
    except tf.errors.DeadlineExceededError:
        print("ended", flush=True)
kf.barrier()
"""
    words = ("-np", "2", sys.executable, "-c", program)
    launch = kungfu_run(*words, KUNGFU_STALL_WARNING="1")
    assert launch.wait() == 0, launch.err
    assert launch.out.count("[0] ended") == 2
    request = r"request of 'x' from rank 1 \(127\.0\.0\.1:\d+\) has taken 1 s: it is not there"
    assert re.search(request, launch.err)
    assert re.search(
        r"put into queue '.*' at 127\.0\.0\.1:\d+ has taken 1 s: it is full, and", launch.err
    )


def test_a_port_in_use_is_named(kungfu_run: "Jobs") -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        program = """
import sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
try:
    libraries.check(libraries.core().kungfu_init())
except errors.KungfuError as error:
    print(f"error: {error}", flush=True)
    sys.exit(1)
"""
        environ = {
            "KUNGFU_SELF": f"127.0.0.1:{port}",
            "KUNGFU_PEERS": f"127.0.0.1:{port},127.0.0.1:1",
        }
        launch = kungfu_run(
            "-np",
            "1",
            "env",
            *(f"{name}={value}" for name, value in environ.items()),
            sys.executable,
            "-c",
            program,
            KUNGFU_TRANSPORT="tcp",
        )
        assert launch.wait() == 1
    assert f"127.0.0.1:{port}" in launch.out
    assert "in use" in launch.out


def test_the_launcher_is_gone(kungfu_run: "Jobs") -> None:
    program = """
print("ready", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    AllReduce("never", 10 + rank * 0).wait() if rank == 0 else signal.pause()
except errors.UnavailableError as error:
    open("error.part", "w").write(str(error))
    os.replace("error.part", "error")
"""
    launch = kungfu_run("-np", "2", *python(program))
    launch.until_printed("ready", times=2)
    launch.process.kill()
    launch.wait()
    kungfu_run.nothing_remains()
    # Killed, or told by the core first: both may be.
    error = kungfu_run.folder / "launch-0" / "error"
    assert not error.exists() or "the launcher is gone" in error.read_text()


def test_many_small_peers(kungfu_run: "Jobs") -> None:
    launch = kungfu_run("-np", "64", "-H", "127.0.0.1:64", *python("print('done')"))
    assert launch.wait() == 0
    assert launch.out.count("done") == 64


def test_an_environment_that_makes_no_sense() -> None:
    program = """
import kungfu_tf as kf
for ask in (kf.init, kf.rank, kf.size):
    try:
        ask()
    except kf.errors.InvalidArgumentError as error:
        print(error)
"""
    environ = {**os.environ, "KUNGFU_SELF": "nonsense"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.count("KUNGFU_SELF: 'nonsense'") == 3, ended.stdout + ended.stderr
