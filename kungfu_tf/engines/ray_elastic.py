"""A job on Ray whose peers come, go and may be lost, as those of `kungfu-run -w -respawn`."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import math
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kungfu_tf import errors
from kungfu_tf.engines import failures, ray_drain
from kungfu_tf.engines.orders import Order
from kungfu_tf.engines.peer_control import Said
from kungfu_tf.engines.ray_pool import Pool
from kungfu_tf.function_launch import results
from kungfu_tf.function_launch.results import Child
from kungfu_tf.launcher.deciding.director import Rules
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.placing import cluster as clusters
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.hosts import Host
from kungfu_tf.launcher.placing.ports import Reservation

_TICK = 1.0  # seconds after which the leader has work, see Director.advance
_COOLDOWN = (5.0, 600.0)  # seconds, as of kungfu-run
# The leader asks one host for newcomers, which stands for the cluster: Ray places them.
_RAY = ipaddress.IPv4Address("0.0.0.0")


class Sizes(NamedTuple):
    """The wanted number of peers, the least and the most."""

    np: int
    least: int
    most: int


def sizes(np: int, min_np: int | None, max_np: int | None) -> Sizes:
    """The numbers of an elastic job.

    Raises:
        ValueError: If they are not in order.
    """
    least, most = 1 if min_np is None else min_np, np if max_np is None else max_np
    if not 1 <= least <= np <= most:
        raise ValueError(
            f"ray.run: min_np {least}, np {np} and max_np {most} must be in order, from 1 on"
        )
    return Sizes(np, least, most)


def run(
    order: Order,
    size: Sizes,
    resources: Mapping[str, float],
    strategy: str,
    start_timeout: float,
    timeout: float,
) -> list[Child]:
    """Runs a job to its end. Returns how the peers ended that took part at last.

    Raises:
        PeerFailedError: If the job failed.
        ResourceExhaustedError: If the cluster has no room for the least number of peers.
        UnavailableError: If a peer cannot start.
        DeadlineExceededError: If they take longer than `timeout` seconds.
    """
    pool = Pool(order, resources, strategy)
    with contextlib.ExitStack() as stack:
        stack.callback(pool.close, 2 * order.grace + 1)
        peers = pool.begin(size.np, size.least, start_timeout)
        job = _Job(pool, peers, size, order.grace)
        pool.reports = job
        return job.run(timeout)


class _Job:
    """The cluster as a Host of a Leader, to which it reports.

    Args:
        pool: The actors, of which the first ones run.
        peers: Their addresses, by rank.
        size: How many peers there may be.
        grace: How many seconds peers have to end.
    """

    has_begun = True  # for a start anew, which the Leader does not decide on here

    def __init__(self, pool: Pool, peers: Sequence[str], size: Sizes, grace: float) -> None:
        self._pool = pool
        self._size = size
        self._grace = grace
        self._members = list(peers)  # those that take part, by rank
        self._names = dict(enumerate(peers))
        self._ended: dict[str, Child] = {}
        self._failures: list[Child] = []
        self._forgiven: set[int] = set()
        self._stop_at = math.inf
        self._next_look = 0.0  # at the nodes
        rules = Rules(
            watch=True,
            reload=False,
            keep=False,
            recoveries=0,
            early_failure=None,
            least=size.least,
            replaced=math.inf,
            cooldown=_COOLDOWN,
        )
        cluster = Cluster(
            tuple(clusters.Peer(rank, _RAY, rank, rank, rank) for rank in range(len(peers))),
            _RAY,
            (Host(_RAY, size.most),),
            Reservation(_RAY),
        )
        self._leader = Leader(cluster, {_RAY: self}, rules, say=_say)
        for number, address in self._names.items():
            self._leader.started(number, address)

    def run(self, timeout: float) -> list[Child]:
        """Runs until all peers have ended."""
        deadline = time.monotonic() + timeout
        if len(self._members) < self._size.np:
            self._leader.change(self._size.np)
        while not self._leader.over:
            now = time.monotonic()
            if now >= deadline:
                raise errors.DeadlineExceededError(
                    f"ray.run: the timeout of {timeout:g} s is over, and not all processes had "
                    "ended"
                )
            if now >= self._stop_at:
                self._stop()
            due = min(now + _TICK, deadline, self._leader.due, self._stop_at)
            self._pool.turn(max(0.0, due - now))
            self._look_at_nodes()
            self._leader.advance()
        if (first := failures.first(self._failures)) is not None:
            raise results.failed(first)
        return list(self._of_members())

    def _look_at_nodes(self) -> None:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _TICK
            self._pool.give_notice(ray_drain.nodes())

    def _of_members(self) -> Iterator[Child]:
        for rank, name in enumerate(self._members):
            if name in self._ended:
                yield self._ended[name]._replace(rank=rank)

    # What the pool reports.

    def started(self, number: int, address: str) -> None:
        self._names[number] = address
        self._leader.started(number, address)

    def said(self, number: int, line: Said) -> None:
        leader = self._leader
        answer = functools.partial(self._pool.tell, number, "answer")
        if line.name == "propose":
            self._propose(number, *line.arguments)
        elif line.name == "notice":
            leader.notice(number, answer)
        elif line.name == "leave":
            leader.leave(number, answer)
        elif line.name == "ready":
            leader.ready(number)
        elif line.name == "entered":
            leader.entered(number, *line.arguments)
        elif line.name == "broken":
            leader.broken(number, *line.arguments)

    def ended(self, number: int, child: Child, *, stopped: bool) -> None:
        code = -signal.SIGKILL if child.code is None else child.code
        self._leader.ended(number, code, stopped=stopped or number in self._forgiven)
        if not failures.has_failed(child):
            self._ended[self._names[number]] = child
        elif number in self._forgiven:
            if child.code != 0:  # it has not left on notice
                _say(str(results.failed(child)))
        elif not stopped:
            self._failures.append(child)

    def _propose(self, number: int, size: int | None) -> None:
        answer = functools.partial(self._pool.tell, number, "answer")
        if size is not None and size < self._size.least:
            answer(f"{size} peers are fewer than min_np, which is {self._size.least}")
            return
        self._leader.propose(number, size, answer)

    def _stop(self) -> None:
        self._stop_at = math.inf
        for number in self._pool.numbers:
            self._pool.stop(number)

    # What the Leader decides, see Host.

    def start(self, number: int, version: int) -> None:
        self._pool.add(number, version)

    def dismiss(self, number: int) -> None:
        self._pool.stop(number)

    def forgive(self, number: int) -> None:
        self._forgiven.add(number)

    def publish(
        self,
        version: int,
        since: int,
        peers: Sequence[str],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        self._members = list(peers)
        for number in told:
            self._pool.tell(number, "publish", version, since, self._members, lost)

    def renew(self, version: int, told: Sequence[int]) -> None:
        for number in told:
            self._pool.tell(number, "renew", version)

    def failed(self, peer: str, text: str) -> None:
        for number in self._pool.numbers:
            self._pool.tell(number, "failed", peer, text)

    def finished(self, peer: str) -> None:
        for number in self._pool.numbers:
            self._pool.tell(number, "finished", peer)

    def warn(self, signum: int) -> None:
        """No signal comes to a job of Ray."""

    def stop_all(self, first: int, code: int) -> None:
        self._stop_at = time.monotonic() + (0 if first else self._grace)


def _say(line: str) -> None:
    print(f"kungfu_tf: {line}", file=sys.stderr, flush=True)
