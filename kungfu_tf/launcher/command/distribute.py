"""`kungfu-distribute` and `kungfu-rrun`: run a command on many hosts at once, over ssh.

The user must be able to log in without a password, and needs Python and the folder at the same
paths on all hosts. The output of the hosts comes line by line, with their addresses before it.

A remote command ends when its input from sshd ends: when we close it, when we are killed, or when
sshd finds the network gone.
"""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence

from kungfu_tf._version import __version__
from kungfu_tf.launcher.channels.signals import WARNING
from kungfu_tf.launcher.command import forwarded, remote_calls
from kungfu_tf.launcher.command.remote_calls import Call, Plan
from kungfu_tf.launcher.options import command_line
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import cluster

_GRACE = 10  # seconds between SIGTERM and SIGKILL
_NOT_STARTED = (2, 126, 127)  # exit codes of kungfu-run

_DISTRIBUTE = """\
usage: kungfu-distribute [-H hosts | -hostfile FILE] [-u USER] [-x NAME,...] [-timeout T]
                         program [arguments]

Calls the program on every host, over ssh and all at once. Ends with the first code that is not 0.
The hosts get the variables that -x names. SIGINT, SIGTERM and -timeout end the program everywhere;
SIGUSR1, SIGUSR2 and SIGQUIT are handed to it.
"""
_RRUN = """\
usage: kungfu-rrun -H hosts [-u USER] [-x NAME,...] [flags of kungfu-run]
                   program [arguments of the program]

Calls kungfu-run on every host, over ssh; the hosts' secret is made if there is none. Flags are
kungfu-run's, without -self and -nic. The hosts get the variables KUNGFU_*, and those that -x names.
The first host on which it fails ends all, and so do SIGINT, SIGTERM and -timeout; with -w or
-auto-recover the runners decide. SIGUSR1, SIGUSR2 and SIGQUIT are handed to all peers.
"""


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
    plan: Callable[[Sequence[str], Options], Plan],
) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        options = command_line.parse(words)
        return remote_calls.call_all(plan(words, options), options)
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


def _distributed(_words: Sequence[str], options: Options) -> Plan:
    command = _in_this_folder(options.command, then=f" && sleep {_GRACE} && kill -s KILL -- -$$")
    said = forwarded.lines(forwarded.named(options.forwarded, os.environ))
    hosts = cluster.hosts_of(options)
    calls = [Call(host, command, said, f"[{host.address}] ") for host in hosts]
    return Plan(calls, lambda _code: False)


def _remote_runners(words: Sequence[str], options: Options) -> Plan:
    if options.hosts is None and options.hostfile is None:
        raise LaunchError("-H or -hostfile says which hosts")
    if options.self_address is not None or options.nic is not None:
        raise LaunchError("-self and -nic are of one host, and this is for all")
    found = cluster.hosts_of(options)
    listed = ",".join(f"{cluster.socket_address(host.address, host.slots)}" for host in found)
    end = len(words) - len(options.command)
    own = _flags_of_runners(words[:end])
    said = forwarded.lines(forwarded.of_runner(options, os.environ))
    calls = []
    for host in found:
        runner = [sys.executable, "-m", "kungfu_tf.launcher", "-self", str(host.address)]
        command = _in_this_folder([*runner, "-H", listed, *own, *words[end:]])
        prefix = f"[{host.address}] " if len(found) > 1 else ""  # the peers' lines have ranks
        calls.append(Call(host, command, said, prefix, f"[{host.address}:"))
    together = options.watch or options.auto_recover is not None
    return Plan(calls, lambda code: code in _NOT_STARTED if together else code != 0)


def _flags_of_runners(words: Sequence[str]) -> list[str]:
    """The flags, without those for this command, and without their values."""
    left, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.lstrip("-").partition("=")
        if word.startswith("-") and name in ("H", "hostfile", "x"):
            if not equals:
                rest.pop(0)
        elif word != "--":
            left.append(word)
    return left


def _in_this_folder(command: Sequence[str], then: str = "") -> str:
    """The text for a shell that leads a process group, as sshd's does.

    The shell first reads variables. Then a process in the background reads names of signals for the
    group, until our side of the connection ends. That process belongs to the group, so its number
    stays in use.

    Args:
        command: The command to run in this folder.
        then: What the process in the background does after SIGTERM.
    """
    names = " ".join(signal.Signals(number).name.removeprefix("SIG") for number in WARNING)
    watch = (
        f"trap '' TERM {names}; while read -r name; do kill -s \"$name\" -- -$$; done; "
        f"kill -0 $$ && kill -s TERM -- -$${then}"
    )
    return (
        f"{forwarded.READ}cd {shlex.quote(os.getcwd())} && exec 3<&0 && "
        f"{{ ({watch}) <&3 >/dev/null 2>&1 & exec {shlex.join(command)} </dev/null 3<&-; }}"
    )
