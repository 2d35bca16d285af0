"""The actors of an elastic job on Ray, each with a peer."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

import ray

from kungfu_tf import errors
from kungfu_tf.engines import failures
from kungfu_tf.engines.orders import Order, by_host, host_of
from kungfu_tf.engines.peer_control import LAST, Said
from kungfu_tf.engines.ray_actor import Peer
from kungfu_tf.engines.ray_job import no_room
from kungfu_tf.engines.ray_options import options_of
from kungfu_tf.function_launch.results import Child

_LONGEST_WAIT = 60.0  # seconds for which an actor waits for a line of its peer
_METHODS_AT_ONCE = 4


class Reports(Protocol):
    """What the pool tells of peers, which are known by their numbers."""

    def started(self, number: int, address: str) -> None:
        """The actor of a newcomer has an address."""

    def said(self, number: int, line: Said) -> None:
        """A peer has said something."""

    def ended(self, number: int, child: Child, *, stopped: bool) -> None:
        """A peer has ended, or its actor was lost. `stopped`: it was asked to end."""


@dataclasses.dataclass
class _Member:
    """A peer that lives, or will.

    Attributes:
        actor: Its actor.
        joins: The version of the membership that it joins, if it is a newcomer.
        address: Where it listens, as soon as it has a place.
        pid: Its actor's process.
        node: The id of its node.
        listening: The answer of its actor that has the next lines of the peer.
        told: How many decisions it was told of.
        is_stopped: Whether it was asked to end.
        has_notice: Whether it was told that its node will be taken away.
    """

    actor: Any
    joins: int | None
    address: str = ""
    pid: int = 0
    node: str = ""
    listening: Any = None
    told: int = 0
    is_stopped: bool = False
    has_notice: bool = False


class Pool:
    """Starts actors, listens to them, and ends them. Used by one thread only.

    Args:
        order: The job.
        resources: What each actor gets.
        strategy: "PACK" or "SPREAD".
    """

    def __init__(self, order: Order, resources: Mapping[str, float], strategy: str) -> None:
        self._order = order._replace(is_elastic=True)
        self._resources = resources
        self._remote = ray.remote(Peer).options(
            max_concurrency=_METHODS_AT_ONCE,
            scheduling_strategy="SPREAD" if strategy == "SPREAD" else "DEFAULT",
            **options_of(resources),
        )
        self._members: dict[int, _Member] = {}
        self._awaited: dict[Any, Callable[[Any], None]] = {}  # what takes each answer of an actor
        self._dropped: list[int] = []  # those that had no place yet
        self.reports: Reports

    def begin(self, np: int, least: int, start_timeout: float) -> list[str]:
        """Starts the first peers. Returns their addresses, by rank.

        Args:
            np: The wanted number.
            least: The least number, if the others have no place in time.
            start_timeout: How many seconds there are.

        Raises:
            ResourceExhaustedError: If the cluster has no room for them.
            UnavailableError: If one cannot start.
        """
        actors = [self._remote.remote() for _ in range(np)]
        try:
            places = {actor.place.remote(): actor for actor in actors}
            ready, _ = ray.wait(list(places), num_returns=np, timeout=start_timeout)
            if len(ready) < least:
                message = no_room(least, self._resources, start_timeout)
                raise errors.ResourceExhaustedError(message)
            placed = [(places.pop(one), ray.get(one)) for one in ready]
        except BaseException as error:
            self._kill(actors)
            if isinstance(error, ray.exceptions.RayError):
                message = f"ray.run: a worker cannot start: {error}"
                raise errors.UnavailableError(message) from error
            raise
        self._kill(places.values())
        hosts = [host_of(place.address) for _, place in placed]
        ranked = [placed[index] for index in by_host(hosts)]
        for number, (actor, place) in enumerate(ranked):
            self._members[number] = _Member(actor, None, *place)
        addresses = [member.address for member in self._members.values()]
        for number in self._members:
            self._run(number, addresses)
        return addresses

    def add(self, number: int, joins: int) -> None:
        """Starts a newcomer, as soon as there is room for it."""
        member = self._members[number] = _Member(self._remote.remote(), joins)
        self._await(member.actor.place.remote(), functools.partial(self._placed, number))

    def tell(self, number: int, name: str, *arguments: Any) -> None:
        """Tells a peer of a decision, see PeerControl."""
        member = self._members.get(number)
        if member is not None:
            member.actor.tell.remote(member.told, name, *arguments)
            member.told += 1

    @property
    def numbers(self) -> list[int]:
        """The peers that live, or will."""
        return list(self._members)

    def stop(self, number: int) -> None:
        """Asks a peer to end; it has KUNGFU_GRACE seconds."""
        member = self._members.get(number)
        if member is None or member.is_stopped:
            return
        member.is_stopped = True
        if member.address:
            member.actor.stop.remote()
        else:
            self._dropped.append(number)

    def give_notice(self, nodes: Container[str]) -> None:
        """Tells peers on nodes that will be taken away, once."""
        for member in self._members.values():
            if member.node in nodes and not member.has_notice:
                member.has_notice = True
                member.actor.give_notice.remote()

    def turn(self, seconds: float) -> None:
        """Waits for answers of actors, at most so long, and reports what they say."""
        dropped, self._dropped = self._dropped, []
        for number in dropped:
            self._end(number, Child(number, "Ray", 0, 0, None))
        if dropped or not self._awaited:
            return
        for one in ray.wait(list(self._awaited), timeout=seconds)[0]:
            self._awaited.pop(one, lambda _: None)(one)

    def close(self, seconds: float) -> None:
        """Ends all peers, within so many seconds."""
        for number in self.numbers:
            self.stop(number)
        deadline = time.monotonic() + seconds
        with contextlib.suppress(errors.KungfuError):
            while self._members and time.monotonic() < deadline:
                self.turn(deadline - time.monotonic())
        self._kill(member.actor for member in self._members.values())

    def _placed(self, number: int, answer: Any) -> None:
        member = self._members.get(number)
        if member is None:
            return
        try:
            member.address, member.pid, member.node = ray.get(answer)
        except ray.exceptions.RayError as error:
            self._end(number, failures.lost(number, "Ray", 0, str(error)))
            return
        if member.is_stopped:
            return
        self.reports.started(number, member.address)
        self._run(number, [member.address])

    def _run(self, number: int, peers: Sequence[str]) -> None:
        member = self._members[number]
        order = self._order._replace(peers=tuple(peers), joins=member.joins)
        self._await(member.actor.run.remote(order, None), functools.partial(self._ended, number))
        self._listen(number)

    def _listen(self, number: int) -> None:
        member = self._members[number]
        member.listening = member.actor.said.remote(_LONGEST_WAIT)
        self._await(member.listening, functools.partial(self._hear, number))

    def _hear(self, number: int, answer: Any) -> None:
        """Reports what a peer has said. If it has ended, only its end is left to come."""
        if number not in self._members:
            return
        self._members[number].listening = None
        try:
            lines = ray.get(answer)
        except ray.exceptions.RayError:
            return
        for line in lines:
            if line.name == LAST:
                return
            self.reports.said(number, line)
        self._listen(number)

    def _ended(self, number: int, answer: Any) -> None:
        member = self._members[number]
        host = host_of(member.address)
        try:
            child = ray.get(answer)._replace(rank=number)
        except ray.exceptions.RayError as error:
            self._end(number, failures.lost(number, host, member.pid, str(error)))
            return
        self._hear_the_rest(number)
        self._end(number, child)

    def _hear_the_rest(self, number: int) -> None:
        """Reports what a peer has said before its end."""
        member = self._members[number]
        while member.listening is not None:
            self._awaited.pop(member.listening)
            self._hear(number, member.listening)

    def _end(self, number: int, child: Child) -> None:
        member = self._members.pop(number)
        self._kill([member.actor])
        self.reports.ended(number, child, stopped=member.is_stopped)

    def _await(self, answer: Any, take: Callable[[Any], None]) -> None:
        self._awaited[answer] = take

    def _kill(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)
