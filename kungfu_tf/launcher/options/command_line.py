"""Parses the command line by the table of flags.

Flags are as in KungFu: one dash or two, `-flag value` or `-flag=value`. They end at the first word
that is not a flag, or at `--`. The program follows; flags after it are its own.
"""

import dataclasses
import difflib
import re
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any

from kungfu_tf.launcher.options import horovodrun, store_url
from kungfu_tf.launcher.options.flags import FLAGS, USAGE, Flag
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.no_program import lacks_program

_BY_NAME = {flag.name: flag for flag in FLAGS}
_SILENT = 5.0  # seconds, of a peer that others survive
_MEANING_NP = ("n", "c", "num-proc", "num_proc", "nproc", "nproc-per-node", "nproc_per_node")


class HelpRequested(Exception):
    """`-h`, `-help` or `--help` was given."""


class VersionRequested(Exception):
    """`-V` or `--version` was given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line. None means that an option was not given."""

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
    job_start: float = dataclasses.field(default_factory=time.time, compare=False)
    verbose: bool = False
    verify: bool = False
    quiet: bool = False
    logfile: str | None = None
    logdir: str | None = None
    timeline: str | None = None
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
    on_failure: str = "stop"
    host_script: str | None = None
    max_np: int | None = None
    min_np: int | None = None
    respawn: bool = False
    respawns: int | None = None
    spares: int = 0
    cooldown: tuple[float, float] = (5.0, 600.0)
    max_changes: int | None = None
    auto_recover: float | None = None
    restarts: int = 10
    user: str | None = None
    forwarded: tuple[str, ...] = ()
    resize: int | None = None
    job: str | None = None

    @property
    def survives(self) -> bool:
        """Whether the others go on when the process of a peer is lost."""
        return self.on_failure in ("survive", "survive-all")

    @property
    def patience(self) -> float | None:
        """Seconds after which a peer that gives no sign of life is killed; None or 0: it is not."""
        return _SILENT if self.survives else self.auto_recover

    @property
    def runner_port(self) -> int:
        """The port where the leading runner listens to the others; 0 if there is none."""
        return self.port_range[0] - 1 if self.port is None else self.port


def parse(arguments: Sequence[str]) -> Options:
    """Parses a command line, without the launcher's own name.

    Raises:
        LaunchError: If it is wrong; it names the flag or word, and what is wrong with it.
        HelpRequested: If it asks for help.
        VersionRequested: If it asks for the version.
    """
    values: dict[str, Any] = {}
    of_horovodrun: list[str] = []  # the flags that kungfu-run lacks
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        name, equals, value = word.lstrip("-").partition("=")
        if name in horovodrun.ROWS and name not in _BY_NAME:
            of_horovodrun.append(name)
            name = horovodrun.ROWS[name].means or name
        flag = _find(name, word, of_horovodrun)
        position += 1
        if not equals:
            is_pair = bool(of_horovodrun) and horovodrun.is_pair(word)
            words = 2 if is_pair else int(bool(flag.argument))
            given = arguments[position : position + words]
            position += words
            if len(given) < words:
                raise LaunchError(f"-{flag.name} needs a value: -{flag.name} {flag.argument}")
            value = "-".join(given) if words else "true"
        if not flag.field:
            continue
        try:
            parsed = flag.parse(value)
        except ValueError as error:
            raise LaunchError(f"-{flag.name}: '{value}' {error}") from None
        values[flag.field] = (*values.get(flag.field, ()), *parsed) if flag.adds else parsed
    if of_horovodrun:
        horovodrun.check(of_horovodrun, values.get("compat", ()))
    values = {**horovodrun.implied(values), **values}
    if values.get("host_script"):
        values = {**values, "watch": True}
    if values.get("respawn") or values.get("spares"):
        values = {"on_failure": "survive", **values, "watch": True}
    return _check(Options(command=tuple(arguments[position:]), **values))


def _find(name: str, word: str, of_horovodrun: Sequence[str]) -> Flag:
    if name in ("h", "help"):
        raise HelpRequested
    if name in ("V", "version"):
        raise VersionRequested
    if name in of_horovodrun:
        argument = "VALUE" if horovodrun.ROWS[name].takes_value else ""
        return Flag(name, "", argument, str, "has no effect, or is refused")
    if name not in _BY_NAME:
        near = ["np"] if name in _MEANING_NP else difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"; did you mean -{near[0]}?" if near else ""
        raise LaunchError(f"there is no flag '{word}'{hint} (kungfu-run --help lists them)")
    return _BY_NAME[name]


def _is_builtin(options: Options) -> bool:
    """Whether -config-server names the server of -builtin-config-port, as KungFu's scripts do."""
    if options.builtin_config_port is None or store_url.is_etcd(options.config_server or ""):
        return False
    url = urllib.parse.urlsplit(options.config_server or "")
    listed = re.split(r"[,:]", f"{options.hosts or ''},{options.self_address or ''}")
    here = {"127.0.0.1", "localhost", "::1", *listed} - {""}
    return url.port == options.builtin_config_port and url.hostname in here


def _check_survival(options: Options) -> None:
    if options.min_np is not None and not options.survives:
        raise LaunchError("-min-np needs -on-failure survive or survive-all")
    if options.min_np is not None and options.np is not None and options.min_np > options.np:
        raise LaunchError(f"-min-np {options.min_np} is more than -np {options.np}")
    replacing = "-respawn" if options.respawn else "-spares" if options.spares else None
    if replacing and not options.survives:
        raise LaunchError(f"{replacing} and -on-failure stop exclude each other")
    others = {
        "-elastic-mode reload": options.elastic_mode == "reload",
        "-auto-recover": options.auto_recover is not None,
    }
    clash = [name for name, is_given in others.items() if is_given]
    documents = {
        "-host-discovery-script": options.host_script,
        "-config-server": options.config_server,
        "-P": options.peers,
    }
    for name, value in documents.items():
        if options.spares and value is not None:
            raise LaunchError(f"-spares and {name} exclude each other: it names all peers")
    if options.survives and clash:
        is_implied = "horovod" in options.compat and options.min_np is not None
        implied = f" (which {replacing} implies)" if replacing else ""
        implied = " (which -min-np of horovodrun means)" if is_implied else implied
        raise LaunchError(
            f"-on-failure {options.on_failure}{implied} and {clash[0]} exclude each other"
        )


def _check_needs(options: Options) -> None:
    """Checks flags that need another one. Those of horovodrun need none."""
    if "horovod" in options.compat:
        return
    needs = {
        "respawns": ("-respawn", options.respawn),
        "cooldown": ("-respawn", options.respawn),
        "max_changes": ("-w or -on-failure survive", options.watch or options.survives),
        "max_np": ("-w", options.watch),
    }
    for name, (other, is_given) in needs.items():
        if getattr(options, name) != getattr(Options, name) and not is_given:
            raise LaunchError(f"-{name.replace('_', '-')} needs {other}")
    if options.max_np is not None and options.host_script is None:
        _check_most(options.max_np, options)


def _check_most(most: int, options: Options) -> None:
    named = {"-H": options.hosts, "-hostfile": options.hostfile, "-P": options.peers}
    for name, value in named.items():
        if value is not None:
            raise LaunchError(f"-max-np and {name} exclude each other: it says how many slots")
    if most < (options.np or 1) + options.spares:
        raise LaunchError(f"-max-np {most} is less than -np and -spares")


def _check(options: Options) -> Options:
    if options.config_server is not None and _is_builtin(options):
        options = dataclasses.replace(options, config_server=None)
    if options.resize is not None:
        if options.command:
            raise LaunchError(f"-resize starts no program: '{options.command[0]}' is too much")
        return options
    if not options.command:
        raise LaunchError(f"no program to run\n{USAGE}\nkungfu-run --help explains the flags")
    if lacks_program(options.command):
        command = " ".join(options.command)
        raise LaunchError(
            f"'{command}' has no program to run: it would read one from its standard input, and"
            f" peers have none. Name it: {options.command[0]} train.py"
        )
    given = {"-H": options.hosts, "-hostfile": options.hostfile, "-P": options.peers}
    clash = [name for name, value in given.items() if value is not None]
    if len(clash) > 1:
        raise LaunchError(f"{' and '.join(clash)} exclude each other: each names the peers")
    servers = {
        "-config-server": options.config_server,
        "-builtin-config-port": options.builtin_config_port,
    }
    named = [name for name, value in servers.items() if value is not None]
    if len(named) > 1:
        raise LaunchError(f"{' and '.join(named)} exclude each other: a job has one document")
    if options.host_script is not None:
        named.append("-host-discovery-script")
    if len(named) > 1:
        raise LaunchError(f"{' and '.join(named)} exclude each other: one says how many peers")
    if options.survives and options.config_server is not None:
        named = []  # the server says which runner leads
    if options.keep:
        named.append("-k")
    if options.elastic_mode == "reload":
        named.append("-elastic-mode reload")
    if named and not options.watch:
        raise LaunchError(f"{named[0]} needs -w: without it the job does not change")
    if options.init_version < 0 and options.config_server is None:
        raise LaunchError("-init-version -1 needs -config-server, which has a document to wait for")
    _check_survival(options)
    _check_needs(options)
    if options.job is not None:
        raise LaunchError("-job goes with -resize")
    if options.self_address is not None and options.nic is not None:
        raise LaunchError("-self and -nic exclude each other: each says which host this is")
    return options
