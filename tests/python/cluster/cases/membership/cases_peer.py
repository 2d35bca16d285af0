"""The process API, without TensorFlow."""

from __future__ import annotations

import signal
import sys
import threading
import time

from harness import Skip, each

import kungfu_tf as kf
from kungfu_tf import config, peer
from kungfu_tf.native import libraries

JOBS = [{"np": 1, "alone": True}, {"np": 3, "alone": True}]  # before TensorFlow is imported
NEEDS_KERAS = False


def case_tensorflow_is_not_imported():
    kf.init()
    kf.init()
    kf.barrier()
    assert kf.size() >= 1
    assert "tensorflow" not in sys.modules


def case_who_is_who():
    assert peer.launched()
    assert 0 <= kf.rank() < kf.size()
    assert kf.local_rank() == kf.rank()
    assert kf.local_size() == kf.size()
    assert kf.host_count() == 1
    assert kf.membership_version() == 0


def case_root():
    assert kf.is_root() == (kf.rank() == 0)
    assert kf.run_on_root(lambda: "mine") == ("mine" if kf.rank() == 0 else None)


def case_others_wait_for_root():
    path, done = config.run_directory() / "prepared", libraries.statistics()["operations"]

    def prepare():
        assert not path.exists()
        time.sleep(0.2)  # those that do not wait are earlier
        return path.write_text("by rank 0")

    result = kf.run_on_root(prepare, wait=True)
    assert path.read_text() == "by rank 0" and (result is None) == (kf.rank() > 0)
    assert libraries.statistics()["operations"] == done + 1
    kf.barrier()
    kf.run_on_root(path.unlink)


def case_others_hear_that_root_has_failed():
    def fail():
        raise ValueError("no such file")

    error = ValueError if kf.is_root() else kf.errors.FailedPreconditionError
    said = "no such file" if kf.is_root() else "the function has failed on rank 0"
    try:
        kf.run_on_root(fail, wait=True)
    except error as raised:
        assert said in str(raised)
    else:
        raise AssertionError("nothing was raised")
    kf.barrier()


def case_many_barriers():
    before = libraries.statistics()["operations"]
    for _ in range(100):
        kf.barrier()
    assert libraries.statistics()["operations"] - before == 100


def case_the_largest_of_all_peers():
    assert kf.all_reduce_int_max(kf.rank() << 40) == (kf.size() - 1) << 40
    assert kf.all_reduce_int_max(-1 - kf.rank()) == -1
    assert "tensorflow" not in sys.modules


class Alarm(Exception):
    """Of a program's signal handler."""


@each(call=["barrier", "all_reduce_int_max"])
def case_a_signal_that_ends_the_wait(call):
    """The others hear of it."""
    wait = {
        "barrier": lambda: kf.barrier(name="interrupted"),
        "all_reduce_int_max": lambda: kf.all_reduce_int_max(1),
    }[call]
    if kf.size() == 1:
        raise Skip("nobody else is there")

    def handler(number, frame):
        if frame.f_code is threading.Condition.wait.__code__:
            raise Alarm
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # it does not wait yet

    if kf.is_root():
        previous = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            wait()
            raise AssertionError("nobody else has come")
        except Alarm:
            pass
        finally:
            signal.signal(signal.SIGALRM, previous)
    kf.barrier(name="after")
    if not kf.is_root():
        try:
            wait()
            raise AssertionError("rank 0 has left")
        except kf.errors.CancelledError:
            pass


def case_uid_is_its_own():
    import tensorflow as tf

    uids = kf.ops.all_gather(tf.constant(kf.uid(), tf.int64)).numpy()
    assert len(set(uids)) == kf.size()
    assert uids[kf.rank()] == kf.uid()
