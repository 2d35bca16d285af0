"""Calls commands on many hosts at once over ssh, and shows their output until they end."""

import contextlib
import math
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kungfu_tf import config
from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.output.job_output import STREAMS, Output
from kungfu_tf.launcher.output.output_wait import OutputWait
from kungfu_tf.launcher.placing.hosts import Host
from kungfu_tf.launcher.processes import peer_process

_READ_SIZE = 1 << 16
_LAST_WAIT = 60.0  # seconds that the hosts have to end


class Call(NamedTuple):
    """A command for the shell of a host.

    Attributes:
        host: The host.
        command: The text for the shell.
        input: What the shell reads first.
        prefix: The prefix of the host's lines.
        known_by: The beginning of lines that need no prefix; empty: all need one.
    """

    host: Host
    command: str
    input: bytes
    prefix: str
    known_by: str = ""


class Plan(NamedTuple):
    """The calls, and the exit codes of one call at which all others are ended."""

    calls: list[Call]
    ends_all: Callable[[int], bool]


def call_all(plan: Plan, options: Options) -> int:
    """Runs all calls to their end.

    At the timeout, or at a signal, the programs are told to end. Their output is shown until they
    have ended, or until a second signal.

    Returns:
        124 after the timeout, 128 + n after signal n. Else the exit code of the call that has ended
        all others, or the first code in their order that is not 0.
    """
    calls = plan.calls
    output = Output(
        {number: call.prefix for number, call in enumerate(calls)},
        known_by={number: call.known_by for number, call in enumerate(calls)},
        quiet=options.quiet,
        logfile=options.logfile,
        logdir=options.logdir,
    )
    with SignalPipe() as signals, contextlib.ExitStack() as running:
        processes: list[subprocess.Popen[bytes]] = []
        wait = OutputWait(
            0,
            ending=False,
            signals=signals,
            time_limit=time.monotonic() + (options.timeout or math.inf),
            grace=_LAST_WAIT,
            say=lambda line: output.say(line, always=True),
            lost="what has not ended",
            warn=lambda number: _pass_on(processes, number),
        )
        processes += [running.enter_context(_start(call, options.user)) for call in calls]
        running.callback(_end, processes)
        for call, process in zip(calls, processes, strict=True):
            _write(process, call.input)
        failure = FirstFailure([str(call.host.address) for call in calls], plan.ends_all)
        _follow(processes, output, signals, wait, failure)
        codes = [peer_process.exit_code(process.poll() or 0) for process in processes]
        output.finish(wait.over)
    return wait.code or failure.code or next(filter(None, codes), 0)


class FirstFailure:
    """Notes the first call that fails, and ends the others some time after it.

    Args:
        names: The names of the calls.
        ends_all: Whether a call with this exit code has failed.
    """

    def __init__(self, names: Sequence[str], ends_all: Callable[[int], bool]) -> None:
        self._names = names
        self._ends_all = ends_all
        self._grace = config.GRACE.get()
        self._why = ""
        self.code = 0
        self.due = math.inf

    def look(self, codes: Sequence[int | None], wait: OutputWait) -> None:
        """Asks for the end if a call has failed, and the others had time to end by themselves.

        Args:
            codes: The exit code of each call; None while it runs.
            wait: Is asked for the end.
        """
        for name, code in zip(self._names, codes, strict=True):
            if code and not self.code and self._ends_all(peer_process.exit_code(code)):
                self.code = peer_process.exit_code(code)
                self.due = time.monotonic() + self._grace
                self._why = f"{name} has failed ({peer_process.describe(code)})"
        if time.monotonic() >= self.due:
            self.due = math.inf
            if not wait.ending:
                wait.end(self._why, self.code)


def _follow(
    processes: Sequence[subprocess.Popen[bytes]],
    output: Output,
    signals: SignalPipe,
    wait: OutputWait,
    failure: FirstFailure,
) -> None:
    """Shows the output of the processes until all have ended, or the wait is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(signals, selectors.EVENT_READ)
        for number, process in enumerate(processes):
            for stream, pipe in zip(STREAMS, (process.stdout, process.stderr), strict=True):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, (number, stream))
        while not wait.over():
            codes = [process.poll() for process in processes]
            failure.look(codes, wait)
            if len(selector.get_map()) == 1 and None not in codes:
                return
            if wait.ending:
                _hang_up(processes)
            left = math.inf if wait.left is None else wait.left
            left = min(left, failure.due - time.monotonic())
            for key, _ in selector.select(None if left == math.inf else max(0.0, left)):
                if key.data is None:
                    continue
                data = os.read(key.fd, _READ_SIZE)
                number, stream = key.data
                output.feed(number, stream, data)
                if not data:
                    selector.unregister(key.fileobj)


def _start(call: Call, user: str | None) -> subprocess.Popen[bytes]:
    """Starts ssh, which must not ask for a password, since its input is the call's.

    The text for the user's shell on the host means the same in all shells, also in those that are
    not like sh.
    """
    command = f"exec sh -c {shlex.quote(call.command)}"
    where = call.host.public or str(call.host.address)
    login = where if user is None else f"{user}@{where}"
    try:
        return subprocess.Popen(
            ["ssh", "-o", "BatchMode=yes", "--", login, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a terminal's Ctrl-C is for us
        )
    except OSError as error:
        raise LaunchError(f"cannot start ssh: {error.strerror}", exit_code=127) from None


def _pass_on(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        _write(process, signal.Signals(number).name.removeprefix("SIG").encode() + b"\n")


def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Writes to the input of a process, unless it has ended or its input is closed."""
    assert process.stdin is not None
    if not process.stdin.closed:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(data)


def _hang_up(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
