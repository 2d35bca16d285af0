"""The command line: a table of flags, and the parser that reads it.

Flags are KungFu's: one dash or two, `-flag value` or `-flag=value`. They end at the first word that
is not a flag, or at `--`: what follows is the program, and flags after it are the program's.
"""

import dataclasses
import difflib
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf.launcher.errors import LaunchError

STRATEGIES = (
    "STAR",
    "MULTI_STAR",
    "RING",
    "CLIQUE",
    "TREE",
    "BINARY_TREE",
    "BINARY_TREE_STAR",
    "MULTI_BINARY_TREE_STAR",
    "HIERARCHY",
    "AUTO",
)

NOT_IN_THIS_VERSION = (
    "k",
    "config-server",
    "builtin-config-port",
    "init-version",
    "elastic-mode",
    "auto-recover",
)

USAGE = "usage: kungfu-run [flags] program [arguments of the program]"


class HelpRequested(Exception):
    """`-h`, `-help` or `--help` was given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says; None where it says nothing."""

    command: tuple[str, ...]
    np: int | None = None
    hosts: str | None = None
    hostfile: str | None = None
    peers: str | None = None
    self_address: str | None = None
    nic: str | None = None
    port_range: tuple[int, int] = (10000, 11000)
    debug_port: int | None = None
    strategy: str | None = None
    timeout: float | None = None
    delay: float = 0.0
    verbose: bool = False
    quiet: bool = False
    logfile: str | None = None
    logdir: str | None = None
    allow_nvlink: bool = False
    insecure: bool = False
    watch: bool = False


def _text(value: str) -> str:
    if not value:
        raise ValueError("is empty")
    return value


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value) or int(value) == 0:
        raise ValueError("is not a number of peers, 1 or more")
    return int(value)


def _port(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value) or not 1 <= int(value) <= 65535:
        raise ValueError("is not a port, 1 to 65535")
    return int(value)


def _port_range(value: str) -> tuple[int, int]:
    first, dash, last = value.partition("-")
    if not dash:
        raise ValueError("is not a range of ports like 10000-11000")
    low, high = _port(first), _port(last)
    if low > high:
        raise ValueError("is a range of ports that ends before it begins")
    return low, high


def _strategy(value: str) -> str:
    if value.upper() not in STRATEGIES:
        raise ValueError(f"is not a strategy; there are {', '.join(STRATEGIES)}")
    return value.upper()


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)")


def _duration(value: str) -> float:
    """Seconds: "90", "1.5s", "500ms", "1h30m"."""
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", value):
        return float(value)
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("is not a duration like 90, 1.5s, 500ms or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _switch(value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise ValueError("is neither true nor false")
    return value.lower() in ("true", "1")


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: Without dashes.
        field: Of `Options`; None: it is read, and has no effect.
        argument: How the help names its value; empty: a switch that needs none.
        parse: Makes a value of the text; a ValueError says what is wrong with it.
        help: What it does.
    """

    name: str
    field: str | None
    argument: str
    parse: Callable[[str], Any]
    help: str


FLAGS = (
    Flag("np", "np", "N", _count, "number of peers over all hosts (default 1)"),
    Flag(
        "H",
        "hosts",
        "ip:slots[:public],...",
        _text,
        "the hosts, each with the number of peers it can take; IPv6 in brackets, [::1]:2; names are"
        " resolved (default 127.0.0.1 with a slot per core, or as many as -np asks for); KungFu's"
        " third part, a host's address outside, is accepted and has no effect",
    ),
    Flag(
        "hostfile",
        "hostfile",
        "FILE",
        _text,
        "the hosts, a line each: `ip slots=N [public_addr=ADDRESS]` or as in -H; # for comments",
    ),
    Flag(
        "P",
        "peers",
        "ip:port[:slot],...",
        _text,
        "the peers themselves, in rank order, instead of -H; slot: which of its host's GPUs",
    ),
    Flag("self", "self_address", "IP", _text, "this host's address in the list"),
    Flag("nic", "nic", "NAME", _text, "this host's address is that of this network interface"),
    Flag(
        "port-range",
        "port_range",
        "FIRST-LAST",
        _port_range,
        "ports for the peers (default 10000-11000, below those the system gives to clients); on one"
        " host the first free ones, on several the first ones of the range on each",
    ),
    Flag(
        "strategy",
        "strategy",
        "NAME",
        _strategy,
        f"how collectives travel: {', '.join(STRATEGIES)} (default $KUNGFU_STRATEGY, or AUTO)",
    ),
    Flag(
        "w",
        "watch",
        "",
        _switch,
        "the job may change its size while it runs: peers are started and leave as the program asks"
        " for it, up to the slots of -H; on one host",
    ),
    Flag("timeout", "timeout", "T", _duration, "end the whole job after 90, 1.5s, 1h30m; code 124"),
    Flag("delay", "delay", "T", _duration, "time between the starts of two peers (default 0)"),
    Flag("v", "verbose", "", _switch, "say what is done, and let the peers log at level INFO"),
    Flag("q", "quiet", "", _switch, "print errors and the summary of a failure, nothing else"),
    Flag("logfile", "logfile", "FILE", _text, "write all output to this file, too"),
    Flag(
        "logdir",
        "logdir",
        "DIR",
        _text,
        "write each peer's output as it is to files of its own, rank-0.stdout.log and so on",
    ),
    Flag(
        "allow-nvlink",
        "allow_nvlink",
        "",
        _switch,
        "tell NCCL to use NVLink between the peers of a host (NCCL_P2P_LEVEL=NVL)",
    ),
    Flag(
        "insecure",
        "insecure",
        "",
        _switch,
        "several hosts without a secret: whoever reaches a port can change the training",
    ),
    Flag(
        "debug-port",
        "debug_port",
        "PORT",
        _port,
        "serve the state of this host's peers as JSON on 127.0.0.1:PORT; asks for a bearer token",
    ),
    Flag(
        "port",
        None,
        "PORT",
        _port,
        "accepted for KungFu's sake, without effect: no runner listens to other runners",
    ),
    Flag(
        "u",
        None,
        "NAME",
        _text,
        "accepted for KungFu's sake, without effect: kungfu-run starts nothing over ssh",
    ),
)

_BY_NAME = {flag.name: flag for flag in FLAGS}

_EPILOG = """\
Several hosts: call the same command on each; each starts its own part of the peers. They share a
secret, in the file named by KUNGFU_SECRET_FILE or in KUNGFU_SECRET.

Exit code: 0 if all peers ended with 0; that of the first peer that failed (128 + the number of the
signal that killed it); 124 after -timeout; 130 and 143 after SIGINT and SIGTERM; 2 if the job could
not be started.

Environment: KUNGFU_GRACE is the number of seconds (default 5) that peers have after each step of
being stopped: told of a failure, SIGTERM, SIGKILL. Peers have no standard input.

  kungfu-run -np 4 python train.py
  kungfu-run -np 4 -H 10.0.0.1:2,10.0.0.2:2 -nic eth0 python train.py
"""


def help_text() -> str:
    """What `--help` prints."""
    lines = [USAGE, "", "Starts the peers of this host and watches them until they end.", ""]
    for flag in FLAGS:
        lines.append(f"  -{flag.name} {flag.argument}".rstrip())
        lines += textwrap.wrap(flag.help, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines) + "\n\n" + _EPILOG


def parse(arguments: Sequence[str]) -> Options:
    """Reads a command line without the launcher's own name.

    Raises:
        LaunchError: what is wrong, with which flag or word.
        HelpRequested: help was asked for.
    """
    values: dict[str, Any] = {}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        name, equals, value = word.lstrip("-").partition("=")
        flag = _find(name, word)
        position += 1
        if not equals:
            if not flag.argument:
                value = "true"
            elif position < len(arguments):
                value = arguments[position]
                position += 1
            else:
                raise LaunchError(f"-{flag.name} needs a value: -{flag.name} {flag.argument}")
        try:
            parsed = flag.parse(value)
        except ValueError as error:
            raise LaunchError(f"-{flag.name}: '{value}' {error}") from None
        if flag.field is not None:
            values[flag.field] = parsed
    return _check(Options(command=tuple(arguments[position:]), **values))


def _find(name: str, word: str) -> Flag:
    if name in ("h", "help"):
        raise HelpRequested
    if name in NOT_IN_THIS_VERSION:
        raise LaunchError(f"-{name}: not in this version")
    if name not in _BY_NAME:
        near = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"; did you mean -{near[0]}?" if near else ""
        raise LaunchError(f"there is no flag '{word}'{hint} (kungfu-run --help lists them)")
    return _BY_NAME[name]


def _check(options: Options) -> Options:
    if not options.command:
        raise LaunchError(f"no program to run\n{USAGE}\nkungfu-run --help explains the flags")
    given = {"-H": options.hosts, "-hostfile": options.hostfile, "-P": options.peers}
    clash = [name for name, value in given.items() if value is not None]
    if len(clash) > 1:
        raise LaunchError(f"{' and '.join(clash)} exclude each other: each says who takes part")
    if options.self_address is not None and options.nic is not None:
        raise LaunchError("-self and -nic exclude each other: each says which host this is")
    return options
