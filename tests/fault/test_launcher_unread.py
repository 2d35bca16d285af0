"""Launchers whose standard output nobody reads."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.fault.elastic import PYTHON

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch


@contextlib.contextmanager
def unread_launcher(
    jobs: Jobs, program: str, *options: str, ready: str
) -> Iterator[tuple[Launch, int]]:
    """A launcher whose standard output nobody reads: the launcher around it, and its own pid.

    The outer one runs its peer in a group of its own and ends with its exit code.
    """
    fifo = jobs.folder / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    inner = (sys.executable, "-m", "kungfu_tf.launcher", "-np", "2", *options)
    command = (*inner, *PYTHON, program)
    launch = jobs("-np", "1", "bash", "-c", f'exec "$0" "$@" > {fifo}', *command, KUNGFU_GRACE="1")
    try:
        launch.until_said(ready)
        running = jobs.living().items()
        yield launch, next(pid for pid, text in running if text.startswith(" ".join(inner)))
    finally:
        os.close(reader)


CHATTER = """
import sys
print('started', file=sys.stderr, flush=True)
while True: print('x' * 1000)
"""
MUCH = "print('x\\n' * 120000)"  # more than a pipe holds, less than the launcher stops at


def test_a_reader_that_has_stopped_does_not_stop_the_launcher(kungfu_run: Jobs) -> None:
    with unread_launcher(kungfu_run, CHATTER, ready="[0] [1] started") as (launch, pid):
        os.kill(pid, signal.SIGTERM)
        assert launch.wait() == 143


# Says so when nobody takes any more of its standard output.
STUCK = """
import sys, threading, time
printed = 0
def chatter():
    global printed
    while True:
        print('x' * 1000)
        printed += 1
threading.Thread(target=chatter, daemon=True).start()
before = -1
while before != printed:
    before = printed
    time.sleep(0.5)
print('stuck', file=sys.stderr, flush=True)
time.sleep(1000)
"""


def test_errors_are_shown_where_standard_output_is_not_read(kungfu_run: Jobs) -> None:
    with unread_launcher(kungfu_run, STUCK, ready="[0] [1] stuck") as (launch, pid):
        launch.until_said("[0] [0] stuck")
        os.kill(pid, signal.SIGTERM)
        assert launch.wait() == 143


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nor_when_its_peers_have_ended(kungfu_run: Jobs, number: signal.Signals) -> None:
    ended = "2 peers finished"
    with unread_launcher(kungfu_run, MUCH, "-v", ready=ended) as (launch, pid):
        os.kill(pid, number)
        assert launch.wait() == 128 + number
    assert f"{number.name}: output that is not read within 1 s is dropped" in launch.err
