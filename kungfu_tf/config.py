"""The settings of the Python side: each declared once, with its meaning.

A setting's value is the environment's, else the default. Where a function takes the same as an
argument, that goes before. The core declares its own in ops/base/config.h; native/environment.py
has both.
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
class Setting(Generic[T]):
    """An environment variable.

    Attributes:
        name: The variable.
        meaning: One line for the user.
        parse: Makes a value of the text; a ValueError says what the text should have been.
        default: Makes the value where the variable gives none.
        secret: Nobody prints the value.
    """

    name: str
    meaning: str
    parse: Callable[[str], T]
    default: Callable[[], T]
    secret: bool = False

    def get(self, *, environ: Mapping[str, str] | None = None) -> T:
        """The value that is in force.

        Args:
            environ: The environment, if not this process's.

        Raises:
            InvalidArgumentError: the variable cannot be understood.
        """
        text = (os.environ if environ is None else environ).get(self.name, "")
        if not text:
            return self.default()
        try:
            return self.parse(text)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self.name}='{text}': {error}") from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise ValueError("expected a number of seconds, 0 to 86400")
    return seconds


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("expected 0 or 1")
    return text == "1"


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected {' or '.join(choices)}")
        return text

    return parse


COMPAT_NAMES = ("kungfu", "tf1")


def compat_names(text: str) -> tuple[str, ...]:
    """What `kungfu_tf.compat` shall stand in for: "kungfu,tf1".

    Raises:
        ValueError: It says something else.
    """
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in COMPAT_NAMES]
    if unknown:
        raise ValueError(f"names {unknown[0]!r}, and there are {', '.join(COMPAT_NAMES)}")
    return names


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "kungfu_tf"


CACHE_DIR = Setting(
    "KUNGFU_CACHE_DIR",
    "directory of op libraries that were compiled at first use",
    Path,
    _default_cache,
)

BUILD_TIMEOUT = Setting(
    "KUNGFU_BUILD_TIMEOUT",
    "seconds that compiling the op library may take in all, waiting for another process that "
    "compiles it included",
    _seconds,
    lambda: 600.0,
)

COMPILER = Setting(
    "CXX",
    "the C++ compiler for the op library (default: the first of g++, c++, clang++ on the PATH)",
    str,
    str,
)

RUNNER = Setting(
    "KUNGFU_RUNNER",
    "marks the processes of a job, so that none of them survives it; set by the launcher",
    str,
    str,
)

RESTARTS = Setting(
    "KUNGFU_RESTARTS",
    "how often all peers of the job were started anew, to go on from a checkpoint (kungfu-run "
    "-auto-recover, -elastic-mode reload); set by the launcher",
    int,
    int,
)

PROGRESS = Setting(
    "KUNGFU_PROGRESS",
    "how far the peers of before had come, as they have told kungfu_tf.change_cluster; set by the "
    "launcher",
    int,
    int,
)

RELOADS = Setting(
    "KUNGFU_RELOADS",
    "1: to change the number of peers all end and are started anew (kungfu-run -elastic-mode "
    "reload); set by the launcher",
    _switch,
    bool,
)

GRACE = Setting(
    "KUNGFU_GRACE",
    "seconds that the launcher gives peers to end before it insists",
    _seconds,
    lambda: 5.0,
)

BIND_TO = Setting(
    "KUNGFU_BIND_TO",
    "cores: of several peers on a host each stays on cores of its own, where there are enough, "
    "their number does not change and no more threads are asked for; or none",
    _one_of("cores", "none"),
    lambda: "cores",
)

VERBOSE = Setting(
    "KUNGFU_VERBOSE",
    "which peers print the progress of fit, evaluate and predict, and log that of sessions: root "
    "or all",
    _one_of("root", "all"),
    lambda: "root",
)

MONITOR_TOKEN = Setting(
    "KUNGFU_MONITOR_TOKEN",
    "what a request to the endpoint of a monitor must bring: Authorization: Bearer <token> "
    "(default: nothing, and only this host can ask)",
    str,
    str,
    secret=True,
)

COMPAT = Setting(
    "KUNGFU_COMPAT",
    "what kungfu_tf.compat stands in for in each Python process of a job: kungfu, tf1; set by "
    "kungfu-run -compat",
    compat_names,
    lambda: (),
)

CONFIG_TOKEN = Setting(
    "KUNGFU_CONFIG_TOKEN",
    "what a request to a config server must bring: Authorization: Bearer <token>",
    str,
    str,
    secret=True,
)

CONFIG_TOKEN_FILE = Setting(
    "KUNGFU_CONFIG_TOKEN_FILE",
    "file with that token in its first line, which nobody else may read",
    str,
    str,
)

SETTINGS: tuple[Setting[Any], ...] = (
    CACHE_DIR,
    BUILD_TIMEOUT,
    COMPILER,
    RUNNER,
    RESTARTS,
    PROGRESS,
    RELOADS,
    GRACE,
    BIND_TO,
    VERBOSE,
    MONITOR_TOKEN,
    COMPAT,
    CONFIG_TOKEN,
    CONFIG_TOKEN_FILE,
)

SECRETS = frozenset({"KUNGFU_SECRET", *(setting.name for setting in SETTINGS if setting.secret)})


class Identity(NamedTuple):
    """Who the launcher says that this process is. The variables are the core's."""

    peer: str
    job: str
    epoch: str


def identity() -> Identity:
    """What the environment says; empty where it says nothing."""
    names = ("KUNGFU_SELF", "KUNGFU_JOB_ID", "KUNGFU_EPOCH")
    return Identity(*(os.environ.get(name, "") for name in names))


PROGRESS_FILE = "progress"  # in the run directory


def run_directory() -> Path:
    """That of the runner of this peer's host. REQUIRES: a launcher has started this process."""
    return Path(os.environ["KUNGFU_SOCKET_DIR"])


def has_neighbours() -> bool:
    """Whether the launcher has started other peers on this peer's host, or may do so later."""
    peers = os.environ.get("KUNGFU_PEERS", "").split(",")
    host, _, _ = os.environ.get("KUNGFU_SELF", "").rpartition(":")
    if os.environ.get("KUNGFU_MEMBERSHIP", "static") != "static":
        return bool(host)
    return bool(host) and sum(peer.rpartition(":")[0] == host for peer in peers) > 1
