"""A newcomer that is killed while the others, who have gone over already, wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fault.elastic import PYTHON, WATCH

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# The runner stands still meanwhile: so it learns of all of that at once, and has told the newcomer
# of nothing.
PROGRAM = """
import os, signal, threading, time
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
def all_say(what):
    open(f"{what}-{rank}", "w").close()
    wait_until(lambda: all(os.path.exists(f"{what}-{other}") for other in range(2)))
def stop_runner():
    os.kill(RUNNER, signal.SIGSTOP)
    wait_until(lambda: state_of(RUNNER) == "T")
def kill_newcomer():
    wait_until(lambda: kf.epoch() == 1)
    all_say("has gone over")
    if rank == 0:
        with open("newcomer") as file:
            newcomer = int(file.read())
        os.kill(newcomer, signal.SIGKILL)
        # Nobody learns of it before its last thread has ended.
        tasks = f"/proc/{newcomer}/task"
        wait_until(lambda: state_of(newcomer) == "Z" and len(os.listdir(tasks)) == 1)
        os.kill(RUNNER, signal.SIGCONT)
weights = tf.Variable(tf.zeros([1000], tf.float64))
gradient = tf.random.stateless_uniform([1000], [kf.uid() % 2**31, 0], dtype=tf.float64)
if kf.joining():
    with open("newcomer", "w") as file:
        file.write(str(os.getpid()))
killer = threading.Thread(target=kill_newcomer)
state = kf.elastic.ElasticState(9)
while not state.stopped():
    with kf.elastic.ElasticContext(state):
        weights.assign_sub(kf.ops.all_reduce(gradient, op="mean", name="step"))
        if state.progress == 3:
            rank = kf.rank()
            if rank == 0:
                kf.propose_new_size(3)
            wait_until(peer.outdated)
            all_say("knows of the newcomer")
            if rank == 0:
                stop_runner()
            all_say("is about to go over")
            killer.start()
killer.join()
assert kf.ops.consensus(weights) and weights.numpy().any()
print("epoch", kf.epoch(), "rank", kf.rank(), "of", kf.size(), state.stop_reason(), flush=True)
"""


def test_a_newcomer_that_is_killed_while_the_others_wait_for_it_is_not_missed(
    kungfu_run: Jobs,
) -> None:
    launch = kungfu_run(*WATCH, "-np", "2", *PYTHON, PROGRAM)
    assert launch.wait() == 0, launch.err
    assert "newcomer 2 has ended before it was taken in" in launch.err
    for rank in (0, 1):
        assert f"[{rank}] epoch 2 rank {rank} of 2 finished\n" in launch.out
