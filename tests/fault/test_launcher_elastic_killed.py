"""Peers that are killed while the runner stands still, which then learns of all of it at once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.fault.elastic import PYTHON, WATCH

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# A newcomer is killed while the others, who have gone over already, wait for it. It has been told
# nothing.
PROGRAM = """
import atexit, os, signal, time
from concurrent.futures import ThreadPoolExecutor
import tensorflow as tf
import kungfu_tf as kf
from kungfu_tf import peer
RUNNER = os.getppid()
def wait_until(done):
    deadline = time.monotonic() + 100
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
def state_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]
def all_agree(what):
    open(f"{what}-{rank}", "w").close()
    wait_until(lambda: all(os.path.exists(f"{what}-{other}") for other in range(2)))
def stop_runner():
    atexit.register(os.kill, RUNNER, signal.SIGCONT)  # whatever happens
    os.kill(RUNNER, signal.SIGSTOP)
    wait_until(lambda: state_of(RUNNER) == "T")
def kill_newcomer():
    try:
        wait_until(lambda: kf.membership_version() == 1)
        all_agree("has gone over")
        if rank == 0:
            with open("newcomer") as file:
                newcomer = int(file.read())
            os.kill(newcomer, signal.SIGKILL)
            # Nobody learns of it before its last thread has ended.
            tasks = f"/proc/{newcomer}/task"
            wait_until(lambda: state_of(newcomer) == "Z" and len(os.listdir(tasks)) == 1)
    finally:
        if rank == 0:
            os.kill(RUNNER, signal.SIGCONT)
weights = tf.Variable(tf.zeros([1000], tf.float64))
gradient = tf.random.stateless_uniform([1000], [kf.uid() % 2**31, 0], dtype=tf.float64)
if kf.joining():
    with open("newcomer", "w") as file:
        file.write(str(os.getpid()))
killer = ThreadPoolExecutor()
state = kf.elastic.ElasticState(9)
while not state.stopped():
    with kf.elastic.ElasticContext(state):
        weights.assign_sub(kf.ops.all_reduce(gradient, op="mean", name="step"))
        if state.progress == 3:
            rank = kf.rank()
            if rank == 0:
                kf.propose_new_size(3)
            wait_until(peer.outdated)
            all_agree("knows of the newcomer")
            if rank == 0:
                stop_runner()
            all_agree("is about to go over")
            killing = killer.submit(kill_newcomer)
killing.result()
assert kf.ops.consensus(weights) and weights.numpy().any()
print("membership", kf.membership_version(), "rank", kf.rank(), "of", kf.size(), end=" ")
print(state.stop_reason(), flush=True)
"""


def test_a_newcomer_that_is_killed_while_the_others_wait_for_it_is_not_missed(
    kungfu_run: Jobs,
) -> None:
    launch = kungfu_run(*WATCH, "-np", "2", *PYTHON, PROGRAM)
    assert launch.wait() == 0, launch.err
    assert "newcomer 2 has ended before it was taken in" in launch.err
    for rank in (0, 1):
        assert f"[{rank}] membership 2 rank {rank} of 2 finished\n" in launch.out


# Dies while the runner stands still, which its child lets go on after that.
DIES = """
import os, signal, socket, time
RUNNER, ME = os.getppid(), os.getpid()
def wait_for(pid, state):
    deadline = time.monotonic() + 100
    while True:
        with open(f"/proc/{pid}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == state:
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)
def die(number, afterwards=lambda: None, last_words=lambda: None):
    if os.fork() == 0:
        try:
            wait_for(ME, "Z")
            afterwards()
        finally:
            os.kill(RUNNER, signal.SIGCONT)
            os._exit(0)
    os.kill(RUNNER, signal.SIGSTOP)
    wait_for(RUNNER, "T")
    last_words()
    os.kill(ME, number)
"""


def test_a_peer_that_has_died_is_heard_to_its_end(kungfu_run: Jobs) -> None:
    """Two lines have come from it at once, the first of which is about the membership."""
    program = """
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["KUNGFU_CONTROL"])
connection.sendall(f"hello {os.environ['KUNGFU_SELF']} {ME}\\npropose 1\\n".encode())
assert connection.recv(100) == b"proposed\\n"
two = b"entered 1\\nreport what it saw\\n"
die(signal.SIGKILL, last_words=lambda: connection.sendall(two))
"""
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, DIES + program)
    assert launch.wait() == 128 + signal.SIGKILL, launch.err
    assert "failed first: killed by SIGKILL" in launch.err
    assert "  reported: what it saw\n" in launch.err


def test_a_peer_that_the_runners_signal_has_ended_too_has_not_failed(kungfu_run: Jobs) -> None:
    program = "die(signal.SIGTERM, afterwards=lambda: os.kill(RUNNER, signal.SIGTERM))"
    launch = kungfu_run(*WATCH, "-np", "1", *PYTHON, DIES + program)
    assert launch.wait() == 128 + signal.SIGTERM, launch.err
    assert "stopped by SIGTERM; no peer failed" in launch.err
