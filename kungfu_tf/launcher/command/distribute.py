"""`kungfu-distribute` and `kungfu-rrun`: a command on many hosts at once, over ssh.

The user can log in there without a password, and has Python and the folder at the same paths. What
the hosts print comes line by line, with their addresses before it.

What runs there ends with us: it is told to when what sshd gives it to read ends, whether we close
that, are killed, or sshd has found the network gone.
"""

import contextlib
import math
import os
import secrets
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kungfu_tf._version import __version__
from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.options import command_line, given_secrets
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.output.job_output import STREAMS, Output
from kungfu_tf.launcher.output.output_wait import OutputWait
from kungfu_tf.launcher.placing import cluster
from kungfu_tf.launcher.placing.hosts import Host

_READ_SIZE = 1 << 16
_GRACE = 10  # seconds between SIGTERM and SIGKILL
_LAST_WAIT = 60.0  # seconds that the hosts have when they were told to end

_DISTRIBUTE = """\
usage: kungfu-distribute [-H hosts | -hostfile FILE] [-u USER] [-timeout T] program [arguments]

Calls the program on every host, over ssh and all at once. Ends with the first code that is not 0.
SIGINT, SIGTERM and -timeout end it everywhere.
"""
_RRUN = """\
usage: kungfu-rrun -H hosts [-u USER] [flags of kungfu-run] program [arguments of the program]

Calls kungfu-run on every host, over ssh; the hosts' secret is made if there is none. Flags are
kungfu-run's, without -self and -nic. SIGINT, SIGTERM and -timeout end the job on all hosts.
"""


class Call(NamedTuple):
    """What is to be called on a host, by a shell; `said`: what it reads first."""

    host: Host
    command: str
    said: bytes = b""


def main_distribute(arguments: Sequence[str] | None = None) -> int:
    """The command `kungfu-distribute`."""
    return _main("kungfu-distribute", _DISTRIBUTE, arguments, _distributed)


def main_rrun(arguments: Sequence[str] | None = None) -> int:
    """The command `kungfu-rrun`."""
    return _main("kungfu-rrun", _RRUN, arguments, _remote_runners)


def _main(
    name: str,
    usage: str,
    arguments: Sequence[str] | None,
    plan: Callable[[Sequence[str], Options], list[Call]],
) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        options = command_line.parse(words)
        return call_all(plan(words, options), options)
    except command_line.HelpRequested:
        print(usage, end="")
        return 0
    except command_line.VersionRequested:
        print(f"{name} {__version__}")
        return 0
    except LaunchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _distributed(_words: Sequence[str], options: Options) -> list[Call]:
    command = _in_this_folder(options.command, then=f" && sleep {_GRACE} && kill -s KILL -- -$$")
    return [Call(host, command) for host in cluster.hosts_of(options)]


def _remote_runners(words: Sequence[str], options: Options) -> list[Call]:
    if options.hosts is None and options.hostfile is None:
        raise LaunchError("-H or -hostfile says which hosts")
    if options.self_address is not None or options.nic is not None:
        raise LaunchError("-self and -nic are of one host, and this is for all")
    found = cluster.hosts_of(options)
    listed = ",".join(f"{cluster.socket_address(host.address, host.slots)}" for host in found)
    end = len(words) - len(options.command)
    own = _without_hosts(words[:end])
    # The secret must not be seen among a host's processes.
    given = given_secrets.secret(os.environ)
    secret = secrets.token_hex(32) if given is None else given.text
    read = "IFS= read -r KUNGFU_SECRET && export KUNGFU_SECRET && "
    calls = []
    for host in found:
        runner = [sys.executable, "-m", "kungfu_tf.launcher", "-self", str(host.address)]
        command = _in_this_folder([*runner, "-H", listed, *own, *words[end:]])
        calls.append(Call(host, read + command, secret.encode() + b"\n"))
    return calls


def _without_hosts(words: Sequence[str]) -> list[str]:
    """Flags without those that name the hosts, and their values."""
    left, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.lstrip("-").partition("=")
        if word.startswith("-") and name in ("H", "hostfile"):
            if not equals:
                rest.pop(0)
        elif word != "--":
            left.append(word)
    return left


def _in_this_folder(command: Sequence[str], then: str = "") -> str:
    """What a shell calls that leads a process group, as sshd's does.

    A process in the background reads until our side of the connection has ended. It is in the
    group, whose number is nobody else's as long as it is. `then`: what it does after SIGTERM.
    """
    watch = f"trap '' TERM; read -r end; kill -0 $$ && kill -s TERM -- -$${then}"
    return (
        f"cd {shlex.quote(os.getcwd())} && exec 3<&0 && "
        f"{{ ({watch}) <&3 >/dev/null 2>&1 & exec {shlex.join(command)} </dev/null 3<&-; }}"
    )


def call_all(calls: Sequence[Call], options: Options) -> int:
    """Returns the first code that is not 0, by the order of the hosts.

    After the timeout that is 124, after signal n 128 + n; the programs are told to end, and what
    they say is shown until they have. After a second signal it is not waited for.
    """
    output = Output(
        {number: f"[{call.host.address}] " for number, call in enumerate(calls)},
        quiet=options.quiet,
        logfile=options.logfile,
        logdir=options.logdir,
    )
    with SignalPipe() as signals, contextlib.ExitStack() as running:
        wait = OutputWait(
            0,
            ending=False,
            signals=signals,
            time_limit=time.monotonic() + (options.timeout or math.inf),
            grace=_LAST_WAIT,
            say=lambda line: output.say(line, always=True),
            lost="what has not ended",
        )
        processes = [running.enter_context(_start(call, options.user)) for call in calls]
        running.callback(_end, processes)
        for call, process in zip(calls, processes, strict=True):
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(call.said)
        _follow(processes, output, signals, wait)
        codes = [process.poll() or 0 for process in processes]
        output.finish(wait.over)
    return wait.code or next((code if code > 0 else 128 - code for code in codes if code), 0)


def _follow(
    processes: Sequence[subprocess.Popen[bytes]],
    output: Output,
    signals: SignalPipe,
    wait: OutputWait,
) -> None:
    """Shows what they say until all have ended, or the wait is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(signals, selectors.EVENT_READ)
        for number, process in enumerate(processes):
            for stream, pipe in zip(STREAMS, (process.stdout, process.stderr), strict=True):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, (number, stream))
        while not wait.over():
            if wait.ending:
                _hang_up(processes)
            if len(selector.get_map()) == 1 and all(p.poll() is not None for p in processes):
                return
            for key, _ in selector.select(wait.left):
                if key.data is None:
                    continue
                data = os.read(key.fd, _READ_SIZE)
                number, stream = key.data
                output.feed(number, stream, data)
                if not data:
                    selector.unregister(key.fileobj)


def _start(call: Call, user: str | None) -> subprocess.Popen[bytes]:
    """ssh reads the secret, and no password: nobody would see its question.

    What the user's shell there is told is the same in all shells, also in those that are no sh.
    """
    told = f"exec sh -c {shlex.quote(call.command)}"
    where = call.host.public or str(call.host.address)
    login = where if user is None else f"{user}@{where}"
    try:
        return subprocess.Popen(
            ["ssh", "-o", "BatchMode=yes", "--", login, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a terminal's Ctrl-C is for us
        )
    except OSError as error:
        raise LaunchError(f"cannot start ssh: {error.strerror}", exit_code=127) from None


def _hang_up(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
