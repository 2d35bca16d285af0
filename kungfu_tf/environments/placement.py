"""The place of this process in a job, as the variables of another launcher tell it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

_FIRST_PORT, _PORTS = 16384, 16384  # below those that Linux gives to outgoing connections


class Placement(NamedTuple):
    """The place that a launcher gives to this process.

    Attributes:
        launcher: The name by which users know the launcher.
        variables: The variables that tell the rank and the number of processes.
        rank: The rank of this process.
        size: The number of processes; 0 if no variable tells it.
        job: A text that only the processes of this job share.
        leader: The host of rank 0; empty if no variable tells it.
        port: The port where rank 0 waits for the others; 0: one that follows from `job`.
        own_port: The port of this process; 0: any.
        local_rank: The rank among the processes of this host; None if no variable tells it.
        local_size: The number of processes on this host; None if no variable tells it.
        restarts: How often the launcher has started the job anew.
        starts_processes: Whether the launcher may itself have been started by another one.
        shares_home: Whether all hosts usually have the same home directory.
    """

    launcher: str
    variables: tuple[str, ...]
    rank: int
    size: int
    job: str
    leader: str = ""
    port: int = 0
    own_port: int = 0
    local_rank: int | None = None
    local_size: int | None = None
    restarts: int = 0
    starts_processes: bool = False
    shares_home: bool = True

    @property
    def is_on_one_host(self) -> bool:
        return self.local_size == self.size

    @property
    def job_id(self) -> str:
        text = f"{self.launcher}/{self.job}/{self.restarts}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def meeting_place(self) -> tuple[str, int]:
        """Where rank 0 waits for the others: host and port. The host may be empty."""
        port = self.port or _FIRST_PORT + int(self.job_id[:8], 16) % _PORTS
        return self.leader, port

    def told(self, environ: Mapping[str, str]) -> str:
        """The launcher with its variables: "Open MPI (OMPI_COMM_WORLD_RANK=1)"."""
        listed = ", ".join(f"{name}={_short(environ.get(name, ''))}" for name in self.variables)
        return f"{self.launcher} ({listed})"


def number(environ: Mapping[str, str], name: str) -> int | None:
    """The variable as a number from 0; None if it is not set, or something else uses it."""
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else None


def split_address(text: str) -> tuple[str, int]:
    """Splits "host:port", "[::1]:port" or "host"; the port is 0 if there is none.

    Raises:
        ValueError: If the port is not a number up to 65535.
    """
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        return text.strip("[]"), 0
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"'{text}' is not host:port")
    return host.strip("[]"), int(port)


def _short(text: str) -> str:
    text = " ".join(text.split())  # one line
    return text if len(text) <= 60 else f"{text[:60]}..."
