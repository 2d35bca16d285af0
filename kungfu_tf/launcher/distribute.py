"""`kungfu-distribute` and `kungfu-rrun`: a command on many hosts at once, over ssh.

Who calls them can log in there without a password, and finds Python and his folder at the same
paths. What the hosts print comes line by line, with their addresses before it.
"""

import contextlib
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

from kungfu_tf.launcher import cluster, credentials, flags
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.flags import Options
from kungfu_tf.launcher.hosts import Host
from kungfu_tf.launcher.output import STREAMS, Output
from kungfu_tf.launcher.patience import TIMED_OUT

_READ_SIZE = 1 << 16

_DISTRIBUTE = """\
usage: kungfu-distribute [-H hosts | -hostfile FILE] [-u USER] [-timeout T] program [arguments]

Calls the program on every host, over ssh and all at once. Ends with the first code that is not 0.
"""
_RRUN = """\
usage: kungfu-rrun -H hosts [-u USER] [flags of kungfu-run] program [arguments of the program]

Calls kungfu-run on every host, over ssh; the hosts' secret is made if there is none. Flags are
kungfu-run's, without -self and -nic.
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
        options = flags.parse(words)
        return call_all(plan(words, options), options)
    except flags.HelpRequested:
        print(usage, end="")
        return 0
    except LaunchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _distributed(_words: Sequence[str], options: Options) -> list[Call]:
    return [Call(host, _in_this_folder(options.command)) for host in cluster.hosts_of(options)]


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
    secret = credentials.secret(os.environ) or secrets.token_hex(32)
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


def _in_this_folder(command: Sequence[str]) -> str:
    return f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(command)}"


def call_all(calls: Sequence[Call], options: Options) -> int:
    """Returns the first code that is not 0, by the order of the hosts; 124 after the timeout."""
    output = Output(
        {number: f"[{call.host.address}] " for number, call in enumerate(calls)},
        quiet=options.quiet,
        logfile=options.logfile,
        logdir=options.logdir,
    )
    deadline = None if options.timeout is None else time.monotonic() + options.timeout
    with contextlib.ExitStack() as running, selectors.DefaultSelector() as selector:
        processes = [running.enter_context(_start(call, options.user)) for call in calls]
        running.callback(_end, processes)
        for number, (call, process) in enumerate(zip(calls, processes, strict=True)):
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(call.said)
                process.stdin.close()
            for stream, pipe in zip(STREAMS, (process.stdout, process.stderr), strict=True):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, (number, stream))
        while selector.get_map():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                output.say(f"-timeout: {options.timeout:g} s are over", always=True)
                output.finish()
                return TIMED_OUT
            for key, _ in selector.select(left):
                data = os.read(key.fd, _READ_SIZE)
                number, stream = key.data
                output.feed(number, stream, data)
                if not data:
                    selector.unregister(key.fileobj)
        codes = [process.wait() for process in processes]
    output.finish()
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def _start(call: Call, user: str | None) -> subprocess.Popen[bytes]:
    """ssh reads the secret, and no password: nobody would see its question."""
    where = call.host.public or str(call.host.address)
    login = where if user is None else f"{user}@{where}"
    try:
        return subprocess.Popen(
            ["ssh", "-o", "BatchMode=yes", "--", login, call.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
    except OSError as error:
        raise LaunchError(f"cannot start ssh: {error.strerror}", exit_code=127) from None


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
