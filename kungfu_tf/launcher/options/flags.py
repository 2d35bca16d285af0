"""The table of kungfu-run's flags, by which command_line.py parses a command line."""

import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any

from kungfu_tf import config, errors
from kungfu_tf.launcher.options import flag_values, store_url
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.native import environment

USAGE = "usage: kungfu-run [flags] program [arguments of the program]"


def _strategy(value: str) -> str:
    try:
        names = environment.strategies()
    except errors.LibraryError as error:
        raise LaunchError(str(error)) from error
    if value.upper() not in names:
        raise ValueError(f"is not a strategy: expected one of {', '.join(names)}")
    return value.upper()


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: Without dashes.
        field: The field of `Options` that it sets.
        argument: What the help calls its value; empty for a switch, which needs none.
        parse: Parses the text of a value; its ValueError says what is wrong.
        help: What the flag does.
        adds: Whether it adds to the earlier values when it is given again.
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
        "the hosts, each with the number of peers it can take, its slots (default: 127.0.0.1 with a"
        " slot per core, or as many as -np asks for; 128 with -w -compat kungfu); IPv6 goes in"
        " brackets, [::1]:2; names are resolved; the third part, a host's public address, is for"
        " kungfu-rrun and kungfu-distribute",
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
        "the peers themselves, in rank order, instead of -H; slot: the number of the peer's GPU",
    ),
    Flag("self", "self_address", "IP", flag_values.text, "this host's address in the list"),
    Flag(
        "nic",
        "nic",
        "NAME",
        flag_values.text,
        "the network interface that has this host's address in the list",
    ),
    Flag(
        "port-range",
        "port_range",
        "FIRST-LAST",
        flag_values.port_range,
        "the ports of the peers (default 10000-11000): on one host the first free ones, on several"
        " hosts the first ones of the range on each",
    ),
    Flag(
        "strategy",
        "strategy",
        "NAME",
        _strategy,
        "the graph along which collectives send data (default: $KUNGFU_STRATEGY, or AUTO)",
    ),
    Flag(
        "w",
        "watch",
        "",
        flag_values.switch,
        "the job may change its size while it runs: peers start and leave as the program asks, up"
        " to the slots of -H. On several hosts the kungfu-run of the first host leads, and all of"
        " them stay until the job has ended",
    ),
    Flag(
        "host-discovery-script",
        "host_script",
        "PROGRAM",
        flag_values.text,
        "a program that prints a line host[:slots] for each host that can take peers now. It is run"
        " once per second on the first host, and the job has as many peers as there are slots, up"
        " to -max-np. Implies -w. Several hosts need -H, too: those that may ever have peers",
    ),
    Flag(
        "max-np",
        "max_np",
        "N",
        flag_values.count,
        "with -w, if no -H names the slots: the largest number of peers, on this host or on those"
        " where another launcher has started kungfu-run. With -host-discovery-script: of its slots"
        " as many (default: -np)",
    ),
    Flag(
        "config-server",
        "config_server",
        "URL",
        store_url.checked,
        "with -w: the peers are the workers in the document of this kungfu-config-server, and"
        " change with it; the token is in KUNGFU_CONFIG_TOKEN, or in the file that"
        " KUNGFU_CONFIG_TOKEN_FILE names. etcd://[USER@]IP:2379/JOB means a document in etcd,"
        " etcds:// with TLS; the password of USER is given as the token is. If the server goes"
        " away, the job goes on as it is. With -on-failure survive on several hosts: the server"
        " says whose kungfu-run leads when that of the first host is gone",
    ),
    Flag(
        "builtin-config-port",
        "builtin_config_port",
        "PORT",
        flag_values.port,
        "with -w: serve the document of such a server on 127.0.0.1:PORT; -config-server may name"
        " this one, too: http://127.0.0.1:PORT/config",
    ),
    Flag(
        "init-version",
        "init_version",
        "N",
        flag_values.version,
        "the version of the document that the job creates if there is none (default 0); -1: wait"
        " for the document of -config-server and begin with its workers instead of -np; peers that"
        " start again keep their addresses",
    ),
    Flag(
        "elastic-mode",
        "elastic_mode",
        "delta|reload",
        flag_values.elastic_mode,
        "with -w, how the job changes its size: delta (default): some peers join or leave, the"
        " others stay; reload: all peers end, and the new number starts from a checkpoint",
    ),
    Flag(
        "k",
        "keep",
        "",
        flag_values.switch,
        "with -w: stay when all peers have finished, and start the program again when somebody asks"
        " for another number of peers",
    ),
    Flag(
        "on-failure",
        "on_failure",
        "stop|survive|survive-all",
        flag_values.on_failure,
        "what happens when a peer is lost: its process is killed by SIGKILL, as for lack of memory,"
        " SIGSEGV or SIGBUS, it gives no sign of life for 5 s, or its host is gone. stop (default):"
        " the job ends; survive: the others repeat the step, and go on. An error of the program"
        " ends the job, but with survive-all that peer is lost, too. The loss of the first host"
        " ends the job, unless there is a -config-server and no -w. With -w the job may also grow"
        " and shrink. Both exclude -auto-recover and -elastic-mode reload",
    ),
    Flag(
        "min-np",
        "min_np",
        "N",
        flag_values.count,
        "with -on-failure survive: the job ends when fewer peers are left (default 1)",
    ),
    Flag(
        "respawn",
        "respawn",
        "",
        flag_values.switch,
        "start a newcomer in place of each lost peer, on any host of -H that has a free slot;"
        " implies -w and, unless survive-all is given, -on-failure survive",
    ),
    Flag(
        "respawns",
        "respawns",
        "N",
        flag_values.count,
        "how many lost peers -respawn replaces at most (default: any number)",
    ),
    Flag(
        "spares",
        "spares",
        "N",
        flag_values.count,
        "start N more peers, on free slots of -H; they get ready, and wait until a peer is lost, in"
        " whose place they then train; implies what -respawn implies. With -respawn there are N"
        " again afterwards",
    ),
    Flag(
        "cooldown",
        "cooldown",
        "FIRST-LONGEST",
        flag_values.durations,
        "how long -respawn starts nothing on a host that has lost a peer: FIRST, and after each"
        " further loss twice as long, up to LONGEST (default 5s-10m)",
    ),
    Flag(
        "max-changes",
        "max_changes",
        "N",
        flag_values.times,
        "how often the peers of a job may change, by resizes and losses; one more change ends the"
        " job (default: any number)",
    ),
    Flag(
        "auto-recover",
        "auto_recover",
        "T",
        flag_values.duration,
        "when a peer fails, or gives no sign of life for T (such as 10s; 0: no limit), start all"
        " peers again; the program continues from its last checkpoint, and KUNGFU_RESTARTS is the"
        " number of restarts so far",
    ),
    Flag(
        "restarts",
        "restarts",
        "N",
        flag_values.count,
        "how many restarts -auto-recover makes at most (default 10)",
    ),
    Flag(
        "resize",
        "resize",
        "N",
        flag_values.count,
        "starts nothing: asks a running job for N peers, a job of this user on this host or that of"
        " -config-server",
    ),
    Flag(
        "job", "job", "NAME", flag_values.text, "the job that -resize means, if several are running"
    ),
    Flag(
        "timeout",
        "timeout",
        "T",
        flag_values.duration,
        "stop the whole job after this time, such as 90, 1.5s or 1h30m; the exit code is 124",
    ),
    Flag(
        "delay",
        "delay",
        "T",
        flag_values.duration,
        "the time between the starts of two peers (default 0)",
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
        "compare the first 3 steps of each training, or $KUNGFU_VERIFY steps, with those of a"
        " single process that has the samples of all peers; an error says what differs, and a line"
        " at the end what could not be compared",
    ),
    Flag(
        "v",
        "verbose",
        "",
        flag_values.switch,
        "log what kungfu-run does, and let the peers log at level INFO",
    ),
    Flag(
        "q",
        "quiet",
        "",
        flag_values.switch,
        "print only errors and the summary of a failure",
    ),
    Flag("logfile", "logfile", "FILE", flag_values.text, "also write all output to this file"),
    Flag(
        "logdir",
        "logdir",
        "DIR",
        flag_values.text,
        "also write the output of each peer, unchanged, to its own files: rank-0.stdout.log, ...",
    ),
    Flag(
        "timeline",
        "timeline",
        "FILE",
        flag_values.text,
        "record when operations begin and end, for chrome://tracing: those of rank 0 in FILE, those"
        " of rank 1 in FILE.1, and so on, each on its own host",
    ),
    Flag(
        "allow-nvlink",
        "allow_nvlink",
        "",
        flag_values.switch,
        "set NCCL_P2P_LEVEL=NVL, for programs that use NCCL themselves; kungfu_tf does not",
    ),
    Flag(
        "insecure",
        "insecure",
        "",
        flag_values.switch,
        "allow several hosts without a secret: any process that reaches a port can then change the"
        " training",
    ),
    Flag(
        "compat",
        "compat",
        "NAME,...",
        config.compat_names,
        "run old programs unchanged. kungfu, horovod, bluefog: modules of that name are those of"
        " kungfu_tf.compat; tf1: import tensorflow means tensorflow.compat.v1, without what"
        " TensorFlow 2 does otherwise",
    ),
    Flag(
        "debug-port",
        "debug_port",
        "PORT",
        flag_values.port,
        "serve the state of this host's peers as JSON on 127.0.0.1:PORT, to requests with a bearer"
        " token",
    ),
    Flag(
        "port",
        "port",
        "PORT",
        flag_values.port,
        "with -w, -auto-recover or -on-failure survive on several hosts: where the first host's"
        " kungfu-run listens to the others (default: the port before -port-range)",
    ),
    Flag(
        "u",
        "user",
        "NAME",
        flag_values.text,
        "for kungfu-rrun and kungfu-distribute: the user on the hosts; has no effect here",
    ),
    Flag(
        "x",
        "forwarded",
        "NAME,...",
        flag_values.variables,
        "for kungfu-rrun and kungfu-distribute: environment variables to pass on to the hosts;"
        " kungfu-rrun passes on KUNGFU_* by itself; has no effect here",
        adds=True,
    ),
)

_EPILOG = """\
Several hosts: run the same command on each; each starts its own part of the peers. They share a
secret, in the file named by KUNGFU_SECRET_FILE or in KUNGFU_SECRET.

Exit code: 0 if all peers ended with 0; else that of the first peer that failed (128 + the number of
the signal that killed it), preferably one of this host; 124 after -timeout; 130 and 143 after
SIGINT and SIGTERM; 126 if the program cannot be run, 127 if it is not found; 2 if the job could not
be started for another reason.

Environment: peers are stopped in steps: they learn of the failure, get SIGTERM, then SIGKILL.
KUNGFU_GRACE is the number of seconds between the steps (default 5). KUNGFU_BIND_TO=none lets peers
run on all cores of a host, not only on their share. Peers have no standard input. SIGUSR1, SIGUSR2
and SIGQUIT are passed on to all peers.

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
    """Lists the strategies, or says why it cannot: only the core knows them."""
    try:
        return f"Strategies: {', '.join(environment.strategies())}."
    except errors.LibraryError as error:
        return f"Strategies: {error}"
