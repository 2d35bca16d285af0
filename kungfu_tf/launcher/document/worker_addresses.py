"""The workers of a cluster document: addresses of peers, or wished ones for newcomers."""

import collections
import ipaddress
from collections.abc import Mapping, Sequence

from kungfu_tf.launcher.options.plural import plural, there_are
from kungfu_tf.launcher.placing.hosts import IPAddress


def host_of(worker: str) -> IPAddress | None:
    """The address of its host; None if it is a name, which is not resolved while a job runs."""
    try:
        return ipaddress.ip_address(worker.rpartition(":")[0].strip("[]"))
    except ValueError:
        return None


def is_anywhere(worker: str) -> bool:
    """Whether a worker may be on any host: 0.0.0.0."""
    host = host_of(worker)
    return host is not None and host.is_unspecified


def adopted(workers: Sequence[str], members: Sequence[tuple[str, IPAddress]]) -> list[str]:
    """Puts the job's peers among the workers of a document that was there before the job.

    The author of the document could not know the addresses of the peers.

    Args:
        workers: The workers of the document.
        members: The job's peers and their hosts.

    Returns:
        The workers. A peer that they do not name takes the place of the first other worker on its
        host.
    """
    result = list(workers)
    names = {name for name, _ in members}
    for name, host in members:
        places = [at for at, other in enumerate(result) if host_of(other) == host]
        free = [at for at in places if result[at] not in names]
        if name not in result and free:
            result[free[0]] = name
    return result


def refusal(
    wishes: Sequence[str], others: Sequence[IPAddress], rooms: Mapping[IPAddress, int]
) -> str | None:
    """Returns why newcomers cannot have their wished addresses, or None.

    Args:
        wishes: The wished addresses.
        others: The hosts of the peers that stay.
        rooms: How many peers each host takes.
    """
    wished = [host_of(wish) for wish in wishes]
    engaged = collections.Counter([*wished, *others])
    for wish, host in zip(wishes, wished, strict=True):
        if is_anywhere(wish):
            continue
        if host is None or host not in rooms:
            ours = ", ".join(map(str, rooms))
            return f"{wish} is on none of this job's hosts, which are {ours}"
        if engaged[host] > rooms[host]:
            wanted = plural(engaged[host], "peer")
            return f"{wanted} on {host}: {there_are(rooms[host], 'slot')}"
    return None
