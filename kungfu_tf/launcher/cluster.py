"""Who takes part: the peers of a job in rank order, and which of them this host starts."""

import dataclasses
import ipaddress
import itertools
import os
from collections.abc import Set

from kungfu_tf.launcher import hosts as hosts_module
from kungfu_tf.launcher import ports
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.flags import Options
from kungfu_tf.launcher.hosts import Host, IPAddress, Place


@dataclasses.dataclass(frozen=True)
class Peer:
    """One peer of the job. `slot`: which of its host's GPUs it gets."""

    rank: int
    address: IPAddress
    port: int
    local_rank: int
    slot: int

    def __str__(self) -> str:
        v6 = isinstance(self.address, ipaddress.IPv6Address)
        return f"[{self.address}]:{self.port}" if v6 else f"{self.address}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """All peers in rank order, and this host. The same on every host but for `here`."""

    peers: tuple[Peer, ...]
    here: IPAddress
    slots: int
    reservation: ports.Reservation = dataclasses.field(compare=False)

    @property
    def local_peers(self) -> tuple[Peer, ...]:
        return tuple(peer for peer in self.peers if peer.address == self.here)

    @property
    def several_hosts(self) -> bool:
        return len({peer.address for peer in self.peers}) > 1

    @property
    def peer_list(self) -> str:
        """As in KUNGFU_PEERS."""
        return ",".join(str(peer) for peer in self.peers)


def one_more(cluster: Cluster, options: Options, rank: int, slots: Set[int]) -> Peer:
    """A newcomer on this host, at a port that no peer of the job had before.

    Args:
        rank: Its number.
        slots: Those of this host that are taken.

    Raises:
        LaunchError: there is no port left.
    """
    port = cluster.reservation.take_another(options.port_range)
    slot = next(slot for slot in itertools.count() if slot not in slots)
    return Peer(rank, cluster.here, port, slot, slot)


def plan(options: Options) -> Cluster:
    """Works out the cluster that a command line asks for, and reserves this host's ports.

    Raises:
        LaunchError: slots, hosts or ports do not suffice or do not fit.
    """
    if options.peers is not None:
        return _plan_places(options, hosts_module.parse_places(options.peers))
    hosts = _hosts(options)
    here = hosts_module.find_self(
        [host.address for host in hosts], self_address=options.self_address, nic=options.nic
    )
    return _plan_hosts(options, hosts, here)


def _hosts(options: Options) -> list[Host]:
    if options.hosts is not None:
        return hosts_module.parse_hosts(options.hosts)
    if options.hostfile is not None:
        return hosts_module.read_hostfile(options.hostfile)
    slots = max(len(os.sched_getaffinity(0)), options.np or 1)
    return [Host(ipaddress.IPv4Address("127.0.0.1"), slots)]


def _plan_hosts(options: Options, hosts: list[Host], here: IPAddress) -> Cluster:
    np = options.np or 1
    slots = sum(host.slots for host in hosts)
    if np > slots:
        raise LaunchError(f"-np {np} is more than the {slots} slots of {_describe(hosts)}")
    used: list[tuple[Host, int]] = []
    left = np
    for host in hosts:
        if left:
            used.append((host, min(left, host.slots)))
            left -= used[-1][1]
    _check_watch(options, len(used))
    first, last = options.port_range
    most = max(count for _, count in used)
    if most > last - first + 1:
        raise LaunchError(f"-port-range {first}-{last} has no room for {most} peers of one host")
    reservation = ports.Reservation(here)
    if len(used) == 1 and used[0][0].address == here:
        numbers = reservation.take_free(np, options.port_range)
    else:
        # Every runner must come to the same list without asking the others.
        numbers = list(range(first, first + most))
        reservation.take(numbers[: next((n for host, n in used if host.address == here), 0)])
    places = [Place(host.address, numbers[i], None) for host, count in used for i in range(count)]
    return Cluster(_ranked(places), here, slots, reservation)


def _plan_places(options: Options, places: list[Place]) -> Cluster:
    slots = len(places)
    np = options.np or slots
    if np > slots:
        raise LaunchError(f"-np {np} is more than the {len(places)} peers of -P")
    places = places[:np]
    addresses = list(dict.fromkeys(place.address for place in places))
    _check_watch(options, len(addresses))
    hosts_module.check_reachable(addresses)
    here = hosts_module.find_self(addresses, self_address=options.self_address, nic=options.nic)
    reservation = ports.Reservation(here)
    reservation.take([place.port for place in places if place.address == here])
    return Cluster(_ranked(places), here, slots, reservation)


def _check_watch(options: Options, hosts: int) -> None:
    if options.watch and hosts > 1:
        raise LaunchError(f"-w: on one host only in this version, not on {hosts}")


def _ranked(places: list[Place]) -> tuple[Peer, ...]:
    counts: dict[IPAddress, int] = {}
    peers = []
    for rank, place in enumerate(places):
        local_rank = counts.get(place.address, 0)
        counts[place.address] = local_rank + 1
        slot = local_rank if place.slot is None else place.slot
        peers.append(Peer(rank, place.address, place.port, local_rank, slot))
    return tuple(peers)


def _describe(hosts: list[Host]) -> str:
    return ", ".join(f"{host.address}:{host.slots}" for host in hosts)
