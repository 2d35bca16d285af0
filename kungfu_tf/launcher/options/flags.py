"""The flags of kungfu-run, as a table; command_line.py reads them."""

import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any

from kungfu_tf import config, errors
from kungfu_tf.launcher.options import flag_values
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.native import environment

USAGE = "usage: kungfu-run [flags] program [arguments of the program]"


def _strategy(value: str) -> str:
    try:
        names = environment.strategies()
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
        parse: Makes a value of the text; a ValueError names the fault.
        help: The meaning of the flag.
        adds: Given again, it adds to the values of before.
    """

    name: str
    field: str
    argument: str
    parse: Callable[[str], Any]
    help: str
    adds: bool = False


FLAGS = (
    Flag("np", "np", "N", flag_values.count, "number of peers over all hosts (default 1)"),
    Flag(
        "H",
        "hosts",
        "ip:slots[:public],...",
        flag_values.text,
        "the hosts, each with the number of peers it can take; IPv6 in brackets, [::1]:2; names are"
        " resolved (default 127.0.0.1 with a slot per core, or as many as -np asks for; 128 with -w"
        " -compat kungfu); the"
        " third part, a host's address outside, is for kungfu-rrun and kungfu-distribute",
    ),
    Flag(
        "hostfile",
        "hostfile",
        "FILE",
        flag_values.text,
        "the hosts, a line each: `ip slots=N [public_addr=ADDRESS]` or as in -H; # for comments",
    ),
    Flag(
        "P",
        "peers",
        "ip:port[:slot],...",
        flag_values.text,
        "the peers themselves, in rank order, instead of -H; slot: which of its host's GPUs",
    ),
    Flag("self", "self_address", "IP", flag_values.text, "this host's address in the list"),
    Flag(
        "nic",
        "nic",
        "NAME",
        flag_values.text,
        "this host's address is that of this network interface",
    ),
    Flag(
        "port-range",
        "port_range",
        "FIRST-LAST",
        flag_values.port_range,
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
        flag_values.switch,
        "the job may change its size while it runs: peers are started and leave as the program asks"
        " for it, up to the slots of -H. On several hosts the runner of the first one leads, and"
        " all stay until the job has ended",
    ),
    Flag(
        "config-server",
        "config_server",
        "URL",
        flag_values.url,
        "with -w: the job's peers are the workers of this server's document (kungfu-config-server),"
        " and change when it changes; the token is in KUNGFU_CONFIG_TOKEN, or in the"
        " file that KUNGFU_CONFIG_TOKEN_FILE names. Without the server the job goes on as it is",
    ),
    Flag(
        "builtin-config-port",
        "builtin_config_port",
        "PORT",
        flag_values.port,
        "with -w: serve such a document on 127.0.0.1:PORT; -config-server may name this one, too:"
        " http://127.0.0.1:PORT/config",
    ),
    Flag(
        "init-version",
        "init_version",
        "N",
        flag_values.version,
        "version of the document that the job begins with where there is none (default 0); -1: the"
        " job waits for the document of -config-server, and begins with the workers that it has,"
        " instead of -np; if all are started anew, it is at the same addresses",
    ),
    Flag(
        "elastic-mode",
        "elastic_mode",
        "delta|reload",
        flag_values.elastic_mode,
        "with -w, how the job changes: delta (default): peers come and go, the others stay; reload:"
        " all leave, and as many as are to be start anew, from a checkpoint",
    ),
    Flag(
        "k",
        "keep",
        "",
        flag_values.switch,
        "with -w: when all peers have finished, stay, and start the program anew when somebody"
        " asks for another number of peers",
    ),
    Flag(
        "auto-recover",
        "auto_recover",
        "T",
        flag_values.duration,
        "when a peer fails, or gives no sign of life for T (10s; 0: however long), start all anew;"
        " the program goes on from its last checkpoint: KUNGFU_RESTARTS is how often that was",
    ),
    Flag(
        "restarts",
        "restarts",
        "N",
        flag_values.count,
        "how often -auto-recover does so, at most (default 10)",
    ),
    Flag(
        "resize",
        "resize",
        "N",
        flag_values.count,
        "starts nothing: asks a running job, this user's on this host or that of -config-server, to"
        " have N peers",
    ),
    Flag("job", "job", "NAME", flag_values.text, "which one -resize means, where several run"),
    Flag(
        "timeout",
        "timeout",
        "T",
        flag_values.duration,
        "stop the whole job after 90, 1.5s, 1h30m; code 124",
    ),
    Flag(
        "delay",
        "delay",
        "T",
        flag_values.duration,
        "time between the starts of two peers (default 0)",
    ),
    Flag(
        "t0",
        "job_start",
        "SECONDS",
        flag_values.duration,
        "when the job began, in seconds since 1970, for programs that print it (default now)",
    ),
    Flag(
        "verify",
        "verify",
        "",
        flag_values.switch,
        "compare the first 3 steps of each fit, or $KUNGFU_VERIFY, with those of a single process"
        " that has the samples of all peers, and end with an error that says what differs",
    ),
    Flag(
        "v",
        "verbose",
        "",
        flag_values.switch,
        "say what is done, and let the peers log at level INFO",
    ),
    Flag(
        "q",
        "quiet",
        "",
        flag_values.switch,
        "print errors and the summary of a failure, nothing else",
    ),
    Flag("logfile", "logfile", "FILE", flag_values.text, "write all output to this file, too"),
    Flag(
        "logdir",
        "logdir",
        "DIR",
        flag_values.text,
        "write each peer's output as it is to files of its own, rank-0.stdout.log and so on",
    ),
    Flag(
        "allow-nvlink",
        "allow_nvlink",
        "",
        flag_values.switch,
        "sets NCCL_P2P_LEVEL=NVL for programs that use NCCL themselves; kungfu_tf does not",
    ),
    Flag(
        "insecure",
        "insecure",
        "",
        flag_values.switch,
        "several hosts without a secret: any process that reaches a port can change the training",
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
        flag_values.port,
        "serve the state of this host's peers as JSON on 127.0.0.1:PORT; asks for a bearer token",
    ),
    Flag(
        "port",
        "port",
        "PORT",
        flag_values.port,
        "with -w or -auto-recover on several hosts: where the first host's runner listens to the"
        " others (default: the port before -port-range)",
    ),
    Flag(
        "u",
        "user",
        "NAME",
        flag_values.text,
        "of kungfu-rrun and kungfu-distribute: the user of the hosts; without effect here",
    ),
    Flag(
        "x",
        "forwarded",
        "NAME,...",
        flag_values.variables,
        "of kungfu-rrun and kungfu-distribute: variables of here that the hosts get, too;"
        " kungfu-rrun forwards KUNGFU_* by itself; here without effect",
        adds=True,
    ),
)

_EPILOG = """\
Several hosts: call the same command on each; each starts its own part of the peers. They share a
secret, in the file named by KUNGFU_SECRET_FILE or in KUNGFU_SECRET.

Exit code: 0 if all peers ended with 0; that of the first peer that failed (128 + the number of the
signal that killed it), of this host's if one of them did; 124 after -timeout; 130 and 143 after
SIGINT and SIGTERM; 126 if the program cannot be run, 127 if it is not found; 2 if the job could not
be started for another reason.

Environment: KUNGFU_GRACE is the number of seconds (default 5) that peers have after each step of
being stopped: told of a failure, SIGTERM, SIGKILL. KUNGFU_BIND_TO=none lets peers run on all cores
of a host, not on their part of them. Peers have no standard input. SIGUSR1, SIGUSR2 and SIGQUIT are
handed to all peers.

  kungfu-run -np 4 python train.py
  kungfu-run -np 4 -H 10.0.0.1:2,10.0.0.2:2 -nic eth0 python train.py
  kungfu-run -w -np 1 -H 127.0.0.1:4 python train.py
  kungfu-run -resize 4
"""


def help_text() -> str:
    """The text that `--help` prints."""
    lines = [USAGE, "", "Starts the peers of this host and watches them until they end.", ""]
    for flag in FLAGS:
        lines.append(f"  -{flag.name} {flag.argument}".rstrip())
        lines += textwrap.wrap(flag.help, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    lines += ["  -V, --version", "        print the version"]
    lines += ["", *textwrap.wrap(_strategies(), 96, break_on_hyphens=False), ""]
    return "\n".join([*lines, _EPILOG])


def _strategies() -> str:
    """The core knows them: without it the rest of the help is still true."""
    try:
        return f"Strategies: {', '.join(environment.strategies())}."
    except errors.LibraryError as error:
        return f"Strategies: {error}"
