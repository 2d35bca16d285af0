"""The settings: environment variables, each declared once, with its meaning, type and default.

Those of Python are here. Those of the core are in ops/peer/config.cc; `native/environment.py` lists
both. The value of a setting comes from the environment, else it is the default. A function's
argument of the same meaning takes precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from kungfu_tf import errors

T = TypeVar("T")


@dataclass(frozen=True)
class Type(Generic[T]):
    """The type of a setting.

    Attributes:
        words: Its description in errors: "a number from 0 to 86400".
        read: Parses a text; raises ValueError if it is not of this type.
        unit: The unit of a number, such as "seconds", or empty.
    """

    words: str
    read: Callable[[str], T]
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.words}, in {self.unit}" if self.unit else self.words


@dataclass(frozen=True)
class Setting(Generic[T]):
    """An environment variable.

    Attributes:
        name: The variable.
        type: The allowed values.
        default: The text that counts if the variable is not set; empty if there is none.
        meaning: One line for the user.
        internal: Whether the launcher sets it for its peers, and users do not.
        secret: Whether the value is never printed.
    """

    name: str
    type: Type[T]
    default: str
    meaning: str
    internal: bool = False
    secret: bool = False

    def get(self, *, environ: Mapping[str, str] | None = None) -> T:
        """The current value.

        Args:
            environ: The environment, if it is not this process's.

        Raises:
            InvalidArgumentError: If the variable cannot be parsed.
        """
        text = (os.environ if environ is None else environ).get(self.name) or self.default
        try:
            return self.type.read(text)
        except ValueError:
            raise errors.InvalidArgumentError(
                f"{self.name}='{text}': expected {self.type}"
            ) from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86400:
        raise ValueError
    return seconds


def _one_of(*choices: str) -> Type[str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return Type(" or ".join(choices), read)


COMPAT_NAMES = ("kungfu", "tf1", "horovod", "bluefog")


def compat_names(text: str) -> tuple[str, ...]:
    """Parses the names for which `kungfu_tf.compat` stands in: "kungfu,tf1".

    Raises:
        ValueError: If there is another name.
    """
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in COMPAT_NAMES]
    if unknown:
        raise ValueError(f"names {unknown[0]!r}, and there are {', '.join(COMPAT_NAMES)}")
    return names


def _cache_directory(text: str) -> Path:
    if text:
        return Path(text)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "kungfu_tf"


_TEXT = Type("text", str)
_PATH = Type("path", str)
_COUNT = Type("an integer", int)
_SECONDS = Type("a number from 0 to 86400", _seconds, "seconds")
_TIME = Type("a number", float, "seconds since 1970")
_SWITCH = Type("0 or 1", lambda text: _one_of("0", "1").read(text) == "1")

CACHE_DIR = Setting(
    "KUNGFU_CACHE_DIR",
    Type("path", _cache_directory),
    "",
    "directory of op libraries that were compiled at first use; where it is not set, kungfu_tf in "
    "$XDG_CACHE_HOME or ~/.cache",
)

BUILD_TIMEOUT = Setting(
    "KUNGFU_BUILD_TIMEOUT",
    _SECONDS,
    "600",
    "most time to compile the op library, with the time to wait for another process that does",
)

COMPILER = Setting(
    "CXX",
    Type("command", str),
    "",
    "C++ compiler for the op library; where it is not set, the first of g++, c++, clang++ on the "
    "PATH",
)

RUNNER = Setting(
    "KUNGFU_RUNNER",
    _TEXT,
    "",
    "mark of the processes of a job, so that none of them survives it",
    internal=True,
)

RESTARTS = Setting(
    "KUNGFU_RESTARTS",
    _COUNT,
    "0",
    "number of times that all peers of the job were started anew, to go on from a checkpoint "
    "(kungfu-run -auto-recover, -elastic-mode reload; a job that Slurm has requeued)",
    internal=True,
)

PROGRESS = Setting(
    "KUNGFU_PROGRESS",
    _COUNT,
    "0",
    "progress of the peers before that, as they gave it to kungfu_tf.resize",
    internal=True,
)

EPOCHS = Setting(
    "KUNGFU_EPOCHS",
    _COUNT,
    "0",
    "epochs that all peers of this host had ended before a failure, as programs of KungFu say",
    internal=True,
)

RELOADS = Setting(
    "KUNGFU_RELOADS",
    _SWITCH,
    "0",
    "1: a change of the number of peers ends them all and starts them anew (kungfu-run "
    "-elastic-mode reload)",
    internal=True,
)

GRACE = Setting(
    "KUNGFU_GRACE",
    _SECONDS,
    "5",
    "time that the launcher gives peers to end before it insists",
)

BIND_TO = Setting(
    "KUNGFU_BIND_TO",
    _one_of("cores", "none"),
    "cores",
    "cores: each of several peers on a host stays on its own cores, or shares one where each core "
    "gets equally many. Not where the number of peers changes, or something else says where "
    "threads run",
)

VERBOSE = Setting(
    "KUNGFU_VERBOSE",
    _one_of("root", "all"),
    "root",
    "peers that print the progress of fit, evaluate and predict, and log that of sessions",
)

MONITOR_TOKEN = Setting(
    "KUNGFU_MONITOR_TOKEN",
    _TEXT,
    "",
    "token of a request to the endpoint of a monitor, Authorization: Bearer <token>; without one "
    "only this host can ask",
    secret=True,
)

COMPAT = Setting(
    "KUNGFU_COMPAT",
    Type(
        f"{' and '.join(COMPAT_NAMES)}, separated by commas",
        lambda text: compat_names(text) if text else (),
    ),
    "",
    "libraries that kungfu_tf.compat stands in for in all Python processes (kungfu-run -compat)",
    internal=True,
)

HAS_CONFIG_SERVER = Setting(
    "KUNGFU_HAS_CONFIG_SERVER",
    _SWITCH,
    "0",
    "1: the job has a config server (kungfu-run -config-server, -builtin-config-port)",
    internal=True,
)

INSECURE = Setting(
    "KUNGFU_INSECURE",
    _SWITCH,
    "0",
    "1: the secret of the job is known to all (kungfu-run -insecure)",
    internal=True,
)

ROWS = Setting(
    "KUNGFU_ROWS",
    _TEXT,
    "",
    "file with the rows of this peer (kungfu_tf.ray.run and kungfu_tf.spark.run with data=)",
    internal=True,
)

JOB_START = Setting(
    "KUNGFU_JOB_START_TIMESTAMP",
    _TIME,
    "0",
    "time when the job was started (kungfu-run -t0)",
    internal=True,
)

PROC_START = Setting(
    "KUNGFU_PROC_START_TIMESTAMP",
    _TIME,
    "0",
    "time when this peer was started",
    internal=True,
)

CONFIG_TOKEN = Setting(
    "KUNGFU_CONFIG_TOKEN",
    _TEXT,
    "",
    "token of a request to a config server, Authorization: Bearer <token>, or password of etcd's "
    "user",
    secret=True,
)

CONFIG_TOKEN_FILE = Setting(
    "KUNGFU_CONFIG_TOKEN_FILE",
    _PATH,
    "",
    "file with that token or password in its first line, which no other user may read",
)

VERIFY = Setting(
    "KUNGFU_VERIFY",
    _COUNT,
    "0",
    "number of first steps of each training that are compared with those of a single process "
    "(kungfu-run -verify: 3)",
)

ENVIRONMENT = Setting(
    "KUNGFU_ENVIRONMENT",
    _one_of("auto", "none"),
    "auto",
    "auto: processes that Slurm, MPI, torchrun or the like has started together are the peers of "
    "one job; none: each trains alone",
)

LEADER = Setting(
    "KUNGFU_LEADER",
    Type("host or host:port", str),
    "",
    "where rank 0 waits for the other processes of such a job, if its launcher does not tell",
)

SIZE = Setting(
    "KUNGFU_SIZE",
    _COUNT,
    "0",
    "number of processes of such a job, if its launcher does not tell; 0: unknown",
)

SETTINGS: tuple[Setting[Any], ...] = (
    CACHE_DIR,
    BUILD_TIMEOUT,
    COMPILER,
    RUNNER,
    RESTARTS,
    PROGRESS,
    EPOCHS,
    RELOADS,
    GRACE,
    BIND_TO,
    VERBOSE,
    MONITOR_TOKEN,
    COMPAT,
    HAS_CONFIG_SERVER,
    ROWS,
    INSECURE,
    JOB_START,
    PROC_START,
    CONFIG_TOKEN,
    CONFIG_TOKEN_FILE,
    VERIFY,
    ENVIRONMENT,
    LEADER,
    SIZE,
)


class Identity(NamedTuple):
    """The identity that the launcher has given to this process, in variables of the core."""

    peer: str
    job: str
    membership_version: str


def identity() -> Identity:
    """Reads it from the environment; it is empty where a variable is not set."""
    names = ("KUNGFU_SELF", "KUNGFU_JOB_ID", "KUNGFU_MEMBERSHIP_VERSION")
    return Identity(*(os.environ.get(name, "") for name in names))


# In the run directory.
PROGRESS_FILE = "progress"
EPOCHS_FILE = "epochs-"  # and the peer's process


def run_directory() -> Path:
    """The runner's directory on this host. REQUIRES: a launcher has started this process."""
    return Path(os.environ["KUNGFU_SOCKET_DIR"])


def has_neighbours() -> bool:
    """Whether the launcher has started other peers on this peer's host, or may do so later."""
    peers = os.environ.get("KUNGFU_PEERS", "").split(",")
    host, _, _ = os.environ.get("KUNGFU_SELF", "").rpartition(":")
    if os.environ.get("KUNGFU_MEMBERSHIP", "static") != "static":
        return bool(host)
    return bool(host) and sum(peer.rpartition(":")[0] == host for peer in peers) > 1
