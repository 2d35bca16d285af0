"""The actors of a job on Ray, from their placement to their end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from kungfu_tf import errors
from kungfu_tf.engines import failures
from kungfu_tf.engines.orders import Order, by_host, host_of
from kungfu_tf.engines.ray_actor import Peer
from kungfu_tf.engines.ray_options import each, options_of
from kungfu_tf.function_launch import results
from kungfu_tf.function_launch.results import Child


class RayPeer(NamedTuple):
    """An actor, the address of its peer, and its process."""

    actor: Any
    address: str
    pid: int


@contextlib.contextmanager
def placed(
    np: int, resources: Mapping[str, float], strategy: str, start_timeout: float
) -> Iterator[Sequence[RayPeer]]:
    """Places actors, in the order of their ranks. None of them outlives the context.

    Args:
        np: Their number.
        resources: What each of them gets.
        strategy: How Ray spreads them over its nodes.
        start_timeout: How many seconds they may take to start.

    Raises:
        ResourceExhaustedError: If the cluster has no room for them.
        DeadlineExceededError: If they do not start in time.
        UnavailableError: If one cannot start.
    """
    deadline = time.monotonic() + start_timeout
    with contextlib.ExitStack() as stack:  # which ends all, even if it cannot end one
        group = placement_group([dict(resources) for _ in range(np)], strategy=strategy)
        stack.callback(remove_placement_group, group)
        if not group.wait(start_timeout):
            raise errors.ResourceExhaustedError(no_room(np, resources, start_timeout))
        actors = []
        for index in range(np):
            actors.append(_actor(group, index, resources))
            stack.callback(ray.kill, actors[-1])
        yield _started(actors, deadline, start_timeout)


def run(
    peers: Sequence[RayPeer], order: Order, timeout: float, shards: Sequence[Any] | None = None
) -> list[Child]:
    """Runs the peers to their ends. Returns how each child ended, if all ended well.

    Args:
        peers: The peers, by rank.
        order: The job.
        timeout: How many seconds they may take.
        shards: The data of each.

    Raises:
        PeerFailedError: If one did not.
        DeadlineExceededError: If they take longer than `timeout` seconds.
    """
    sent = ray.put(order._replace(peers=tuple(peer.address for peer in peers)))
    given = [None] * len(peers) if shards is None else shards
    ranks = {
        peer.actor.run.remote(sent, shard): rank
        for rank, (peer, shard) in enumerate(zip(peers, given, strict=True))
    }
    try:
        ended = _ends(peers, ranks, timeout, order.grace)
    finally:
        _stop(peers, ranks, order.grace)
    if (first := failures.first(ended)) is not None:
        raise results.failed(first)
    return ended


def _actor(group: Any, index: int, resources: Mapping[str, float]) -> Any:
    place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
    options = options_of(resources)
    remote = ray.remote(Peer).options(max_concurrency=2, scheduling_strategy=place, **options)
    return remote.remote()


def _started(actors: Sequence[Any], deadline: float, start_timeout: float) -> list[RayPeer]:
    try:
        left = max(0.0, deadline - time.monotonic())
        places = ray.get([actor.place.remote() for actor in actors], timeout=left)
    except ray.exceptions.GetTimeoutError:
        raise errors.DeadlineExceededError(
            f"ray.run: after {start_timeout:g} s not all {len(actors)} workers had started"
        ) from None
    except ray.exceptions.RayError as error:
        raise errors.UnavailableError(f"ray.run: a worker cannot start: {error}") from error
    placed = zip(actors, places, strict=True)
    peers = [RayPeer(actor, place.address, place.pid) for actor, place in placed]
    return [peers[index] for index in by_host([host_of(peer.address) for peer in peers])]


def _ends(
    peers: Sequence[RayPeer], ranks: dict[Any, int], timeout: float, grace: float
) -> list[Child]:
    """How the peers ended, up to the first failure.

    After a failure whose cause may be another one, the cause has `grace` seconds to show.
    """
    deadline = time.monotonic() + timeout
    ended: list[Child] = []
    while ranks:
        first = failures.first(ended)
        if first is not None and not failures.is_consequence(first):
            break
        left = max(0.0, deadline - time.monotonic())
        ready, _ = ray.wait(list(ranks), timeout=None if left == math.inf else left)
        if not ready and first is None:
            late = ", ".join(str(rank) for rank in sorted(ranks.values()))
            raise errors.DeadlineExceededError(
                f"ray.run: the timeout of {timeout:g} s is over, and rank {late} had not ended"
            )
        if not ready:
            break
        for reference in ready:
            rank = ranks.pop(reference)
            ended.append(_end(peers[rank], rank, reference))
        if first is None and failures.first(ended) is not None:
            deadline = time.monotonic() + grace
    return ended


def _end(peer: RayPeer, rank: int, reference: Any) -> Child:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return failures.lost(rank, host_of(peer.address), peer.pid, str(error))


def _stop(peers: Sequence[RayPeer], ranks: Mapping[Any, int], grace: float) -> None:
    """Ends the peers that still run, with `grace` seconds to clean up."""
    if not ranks:
        return
    for rank in ranks.values():
        peers[rank].actor.stop.remote()
    ray.wait(list(ranks), num_returns=len(ranks), timeout=2 * grace + 1)


def no_room(np: int, resources: Mapping[str, float], start_timeout: float) -> str:
    """Why so many workers could not be placed in time."""
    has = ray.cluster_resources()
    free = ray.available_resources()
    told = ", ".join(
        f"{name}: {free.get(name, 0):g} of {has.get(name, 0):g}" for name in sorted(resources)
    )
    message = (
        f"ray.run: after {start_timeout:g} s the cluster has no room for {np} workers with "
        f"{each(resources)} each. Free are {told}"
    )
    return errors.linked("engine-room", message)
