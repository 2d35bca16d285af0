"""What the workers of an engine tell the caller, and what it tells them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kungfu_tf import config
from kungfu_tf.function_launch import pickling
from kungfu_tf.launcher.processes import peer_environment
from kungfu_tf.native import environment

_NOT_SENT = ("KUNGFU_SECRET", "KUNGFU_SECRET_FILE", "KUNGFU_CACHE_DIR")


class Order(NamedTuple):
    """A job.

    Attributes:
        job: Its id.
        secret: Its secret.
        environ: Variables of all its processes.
        call: The pickled function with its arguments.
        restarts: How often it was started anew.
        peers: The addresses "ip:port" of its peers, by rank.
        is_elastic: Whether its peers may come, go and be lost.
        joins: The version of the membership that a newcomer joins; None: it is no newcomer.
    """

    job: str
    secret: str
    environ: Mapping[str, str]
    call: bytes
    restarts: int = 0
    peers: tuple[str, ...] = ()
    is_elastic: bool = False
    joins: int | None = None

    def __repr__(self) -> str:
        """Without the secret and what the function carries, for logs of an engine."""
        return f"Order(job={self.job!r}, restarts={self.restarts}, peers={self.peers!r})"

    @property
    def grace(self) -> float:
        """How many seconds a process of the job has to clean up: the caller's KUNGFU_GRACE."""
        return config.GRACE.get(environ=self.environ)

    def again(self, restarts: int) -> Order:
        """The job, started anew, so that no process of an earlier start is taken for its own."""
        return self._replace(job=secrets.token_hex(16), restarts=restarts)


def new(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    environ: Mapping[str, str] | None,
) -> Order:
    """A job whose peers are not known yet.

    Args:
        fn: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
        environ: Variables for its processes, besides the caller's settings of kungfu_tf.

    Raises:
        InvalidArgumentError: If the function cannot be pickled.
    """
    call = pickling.dump_call(fn, args, kwargs)
    variables = {**_settings(), **(environ or {})}
    return Order("", secrets.token_hex(32), variables, call)


def by_host(hosts: Sequence[str]) -> list[int]:
    """The indices of hosts in the order of their ranks: host by host, as they first come."""
    first = list(dict.fromkeys(hosts))
    return sorted(range(len(hosts)), key=lambda index: first.index(hosts[index]))


def host_of(address: str) -> str:
    """The host of "host:port"."""
    return address.rpartition(":")[0]


def variables_of_peer(order: Order, rank: int) -> dict[str, str]:
    """The variables that make a process this peer of a job, but for those of its host."""
    hosts = [host_of(peer) for peer in order.peers]
    here = hosts[rank]
    local = hosts.count(here)
    told = peer_environment.told_to_others(rank, len(hosts), hosts[:rank].count(here), local)
    return {
        **order.environ,
        **told,
        "KUNGFU_SELF": order.peers[rank],
        "KUNGFU_PEERS": ",".join(order.peers),
        "KUNGFU_JOB_ID": order.job,
        "KUNGFU_SECRET": order.secret,
        "KUNGFU_RESTARTS": str(order.restarts),
        **(_of_membership(order) if order.is_elastic else {}),
    }


def _of_membership(order: Order) -> dict[str, str]:
    return {
        "KUNGFU_MEMBERSHIP": "elastic" if order.joins is None else "joining",
        "KUNGFU_MEMBERSHIP_VERSION": str(order.joins or 0),
        "KUNGFU_SURVIVE": "1",
    }


def _settings() -> dict[str, str]:
    """The caller's own settings."""
    names = {setting.name for setting in environment.settings() if not setting.internal}
    sent = {name for name in names if name.startswith("KUNGFU_")}.difference(_NOT_SENT)
    return {name: os.environ[name] for name in sorted(sent & set(os.environ))}
