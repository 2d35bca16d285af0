"""The command line: a table of flags, and the parser that reads it.

Flags are KungFu's: one dash or two, `-flag value` or `-flag=value`. They end at the first word that
is not a flag, or at `--`: what follows is the program, and flags after it are the program's.
"""

import dataclasses
import difflib
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf import _environment, config, errors
from kungfu_tf.launcher import kinds
from kungfu_tf.launcher.errors import LaunchError

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
    compat: tuple[str, ...] = ()
    port: int | None = None
    config_server: str | None = None
    builtin_config_port: int | None = None
    init_version: int = 0
    keep: bool = False
    elastic_mode: str = "delta"
    auto_recover: float | None = None
    restarts: int = 10
    user: str | None = None
    resize: int | None = None
    job: str | None = None

    @property
    def runner_port(self) -> int:
        """Where the runner that leads listens to others; 0: there is no such port."""
        return self.port_range[0] - 1 if self.port is None else self.port


def _strategy(value: str) -> str:
    try:
        names = _environment.strategies()
    except errors.LibraryError as error:
        raise LaunchError(str(error)) from error
    if value.upper() not in names:
        raise ValueError(f"is no strategy: expected one of {', '.join(names)}")
    return value.upper()


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: Without dashes.
        field: Of `Options`.
        argument: How the help names its value; empty: a switch that needs none.
        parse: Makes a value of the text; a ValueError says what is wrong with it.
        help: What it does.
    """

    name: str
    field: str
    argument: str
    parse: Callable[[str], Any]
    help: str


FLAGS = (
    Flag("np", "np", "N", kinds.count, "number of peers over all hosts (default 1)"),
    Flag(
        "H",
        "hosts",
        "ip:slots[:public],...",
        kinds.text,
        "the hosts, each with the number of peers it can take; IPv6 in brackets, [::1]:2; names are"
        " resolved (default 127.0.0.1 with a slot per core, or as many as -np asks for); the"
        " third part, a host's address outside, is for kungfu-rrun and kungfu-distribute",
    ),
    Flag(
        "hostfile",
        "hostfile",
        "FILE",
        kinds.text,
        "the hosts, a line each: `ip slots=N [public_addr=ADDRESS]` or as in -H; # for comments",
    ),
    Flag(
        "P",
        "peers",
        "ip:port[:slot],...",
        kinds.text,
        "the peers themselves, in rank order, instead of -H; slot: which of its host's GPUs",
    ),
    Flag("self", "self_address", "IP", kinds.text, "this host's address in the list"),
    Flag("nic", "nic", "NAME", kinds.text, "this host's address is that of this network interface"),
    Flag(
        "port-range",
        "port_range",
        "FIRST-LAST",
        kinds.port_range,
        "ports for the peers (default 10000-11000, below those the system gives to clients); on one"
        " host the first free ones, on several the first ones of the range on each",
    ),
    Flag(
        "strategy",
        "strategy",
        "NAME",
        _strategy,
        "how collectives travel: the name of a strategy (default $KUNGFU_STRATEGY, or AUTO)",
    ),
    Flag(
        "w",
        "watch",
        "",
        kinds.switch,
        "the job may change its size while it runs: peers are started and leave as the program asks"
        " for it, up to the slots of -H. On several hosts the runner of the first one leads, and"
        " all stay until the job has ended",
    ),
    Flag(
        "config-server",
        "config_server",
        "URL",
        kinds.url,
        "with -w: the job's peers are the workers of this server's document (kungfu-config-server),"
        " and change when it changes; the token is in KUNGFU_CONFIG_TOKEN, or in the"
        " file that KUNGFU_CONFIG_TOKEN_FILE names. Without the server the job goes on as it is",
    ),
    Flag(
        "builtin-config-port",
        "builtin_config_port",
        "PORT",
        kinds.port,
        "with -w: serve such a document on 127.0.0.1:PORT",
    ),
    Flag(
        "init-version",
        "init_version",
        "N",
        kinds.version,
        "version of the document that the job begins with where there is none (default 0); -1: the"
        " job waits for the document of -config-server, and begins with the workers that it has,"
        " instead of -np; if all are started anew, it is at the same addresses",
    ),
    Flag(
        "elastic-mode",
        "elastic_mode",
        "delta|reload",
        kinds.elastic_mode,
        "with -w, how the job changes: delta (default): peers come and go, the others stay; reload:"
        " all leave, and as many as are to be start anew, from a checkpoint",
    ),
    Flag(
        "k",
        "keep",
        "",
        kinds.switch,
        "with -w: when all peers have ended well, stay, and start the program anew when somebody"
        " asks for another number of peers",
    ),
    Flag(
        "auto-recover",
        "auto_recover",
        "T",
        kinds.duration,
        "when a peer fails, or gives no sign of life for T (10s; 0: however long), start all anew;"
        " the program goes on from its last checkpoint: KUNGFU_RESTARTS is how often that was",
    ),
    Flag(
        "restarts",
        "restarts",
        "N",
        kinds.count,
        "how often -auto-recover does so, at most (default 10)",
    ),
    Flag(
        "resize",
        "resize",
        "N",
        kinds.count,
        "starts nothing: asks a running job, this user's on this host or that of -config-server, to"
        " have N peers",
    ),
    Flag("job", "job", "NAME", kinds.text, "which one -resize means, where several run"),
    Flag(
        "timeout",
        "timeout",
        "T",
        kinds.duration,
        "end the whole job after 90, 1.5s, 1h30m; code 124",
    ),
    Flag("delay", "delay", "T", kinds.duration, "time between the starts of two peers (default 0)"),
    Flag("v", "verbose", "", kinds.switch, "say what is done, and let the peers log at level INFO"),
    Flag("q", "quiet", "", kinds.switch, "print errors and the summary of a failure, nothing else"),
    Flag("logfile", "logfile", "FILE", kinds.text, "write all output to this file, too"),
    Flag(
        "logdir",
        "logdir",
        "DIR",
        kinds.text,
        "write each peer's output as it is to files of its own, rank-0.stdout.log and so on",
    ),
    Flag(
        "allow-nvlink",
        "allow_nvlink",
        "",
        kinds.switch,
        "sets NCCL_P2P_LEVEL=NVL for programs that use NCCL themselves; kungfu_tf does not",
    ),
    Flag(
        "insecure",
        "insecure",
        "",
        kinds.switch,
        "several hosts without a secret: whoever reaches a port can change the training",
    ),
    Flag(
        "compat",
        "compat",
        "NAME,...",
        config.compat_names,
        "run old programs without an edit. kungfu: its modules are those of kungfu_tf.compat; tf1:"
        " import tensorflow means tensorflow.compat.v1, without the behaviour of TensorFlow 2",
    ),
    Flag(
        "debug-port",
        "debug_port",
        "PORT",
        kinds.port,
        "serve the state of this host's peers as JSON on 127.0.0.1:PORT; asks for a bearer token",
    ),
    Flag(
        "port",
        "port",
        "PORT",
        kinds.port,
        "with -w or -auto-recover on several hosts: where the first host's runner listens to the"
        " others (default: the port before -port-range)",
    ),
    Flag(
        "u",
        "user",
        "NAME",
        kinds.text,
        "of kungfu-rrun and kungfu-distribute: who logs in on the hosts; here without effect",
    ),
)

_BY_NAME = {flag.name: flag for flag in FLAGS}

_EPILOG = """\
Several hosts: call the same command on each; each starts its own part of the peers. They share a
secret, in the file named by KUNGFU_SECRET_FILE or in KUNGFU_SECRET.

Exit code: 0 if all peers ended with 0; that of the first peer that failed (128 + the number of the
signal that killed it), of this host's if one of them did; 124 after -timeout; 130 and 143 after
SIGINT and SIGTERM; 126 if the program cannot be run, 127 if it is not found; 2 if the job could not
be started for another reason.

Environment: KUNGFU_GRACE is the number of seconds (default 5) that peers have after each step of
being stopped: told of a failure, SIGTERM, SIGKILL. KUNGFU_BIND_TO=none lets peers run on all cores
of a host, not on their part of them. Peers have no standard input.

  kungfu-run -np 4 python train.py
  kungfu-run -np 4 -H 10.0.0.1:2,10.0.0.2:2 -nic eth0 python train.py
  kungfu-run -w -np 1 -H 127.0.0.1:4 python train.py
  kungfu-run -resize 4
"""


def help_text() -> str:
    """What `--help` prints."""
    lines = [USAGE, "", "Starts the peers of this host and watches them until they end.", ""]
    for flag in FLAGS:
        lines.append(f"  -{flag.name} {flag.argument}".rstrip())
        lines += textwrap.wrap(flag.help, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    lines += ["", *textwrap.wrap(_strategies(), 96, break_on_hyphens=False), ""]
    return "\n".join([*lines, _EPILOG])


def _strategies() -> str:
    """The core knows them: without it the rest of the help is still true."""
    try:
        return f"Strategies: {', '.join(_environment.strategies())}."
    except errors.LibraryError as error:
        return f"Strategies: {error}"


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
        values[flag.field] = parsed
    return _check(Options(command=tuple(arguments[position:]), **values))


def _find(name: str, word: str) -> Flag:
    if name in ("h", "help"):
        raise HelpRequested
    if name not in _BY_NAME:
        near = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"; did you mean -{near[0]}?" if near else ""
        raise LaunchError(f"there is no flag '{word}'{hint} (kungfu-run --help lists them)")
    return _BY_NAME[name]


def _check(options: Options) -> Options:
    if options.resize is not None:
        if options.command:
            raise LaunchError(f"-resize starts no program: '{options.command[0]}' is too much")
        return options
    if not options.command:
        raise LaunchError(f"no program to run\n{USAGE}\nkungfu-run --help explains the flags")
    given = {"-H": options.hosts, "-hostfile": options.hostfile, "-P": options.peers}
    clash = [name for name, value in given.items() if value is not None]
    if len(clash) > 1:
        raise LaunchError(f"{' and '.join(clash)} exclude each other: each says who takes part")
    servers = {
        "-config-server": options.config_server,
        "-builtin-config-port": options.builtin_config_port,
    }
    named = [name for name, value in servers.items() if value is not None]
    if len(named) > 1:
        raise LaunchError(f"{' and '.join(named)} exclude each other: a job has one document")
    if options.keep:
        named.append("-k")
    if options.elastic_mode == "reload":
        named.append("-elastic-mode reload")
    if named and not options.watch:
        raise LaunchError(f"{named[0]} needs -w: without it the job does not change")
    if options.init_version < 0 and options.config_server is None:
        raise LaunchError("-init-version -1 needs -config-server, which has a document to wait for")
    if options.job is not None:
        raise LaunchError("-job goes with -resize")
    if options.self_address is not None and options.nic is not None:
        raise LaunchError("-self and -nic exclude each other: each says which host this is")
    return options
