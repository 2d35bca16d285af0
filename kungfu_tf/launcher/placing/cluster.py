"""The peers of a job in rank order, and which of them this host starts."""

import collections
import dataclasses
import ipaddress
import itertools
import os
from collections.abc import Sequence, Set

from kungfu_tf import errors
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.placing import host_script, ports
from kungfu_tf.launcher.placing import hosts as hosts_module
from kungfu_tf.launcher.placing.hosts import Host, IPAddress, Place

_MOST = 128  # peers of a program that names no host, and asks for as many as it likes


def socket_address(address: IPAddress, port: int) -> str:
    """The address as in KUNGFU_PEERS."""
    v6 = isinstance(address, ipaddress.IPv6Address)
    return f"[{address}]:{port}" if v6 else f"{address}:{port}"


@dataclasses.dataclass(frozen=True)
class Peer:
    """One peer of the job. `slot` is the number of its GPU on its host."""

    rank: int
    address: IPAddress
    port: int
    local_rank: int
    slot: int

    def __str__(self) -> str:
        return socket_address(self.address, self.port)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """All peers in rank order, and this host. It is the same on every host except for `here`.

    `hosts` are the hosts that have peers, and with -w all that may get some; the first one leads.
    """

    peers: tuple[Peer, ...]
    here: IPAddress
    hosts: tuple[Host, ...]
    reservation: ports.Reservation = dataclasses.field(compare=False)

    @property
    def local_peers(self) -> tuple[Peer, ...]:
        return tuple(peer for peer in self.peers if peer.address == self.here)

    @property
    def several_hosts(self) -> bool:
        return len(self.hosts) > 1

    @property
    def leads(self) -> bool:
        """Whether the runner of this host decides for all hosts."""
        return self.here == self.hosts[0].address

    def prefix(self, peer: Peer) -> str:
        """The text before each line of a peer."""
        return f"[{peer.address}:{peer.rank}] " if self.several_hosts else f"[{peer.rank}] "

    @property
    def slots(self) -> int:
        """The largest possible number of peers."""
        return sum(host.slots for host in self.hosts)

    @property
    def peer_list(self) -> str:
        """The value of KUNGFU_PEERS."""
        return ",".join(str(peer) for peer in self.peers)

    @property
    def description(self) -> str:
        """The job as a text that is the same on every host."""
        hosts = ",".join(f"{host.address}={host.slots}" for host in self.hosts)
        return f"{self.peer_list} {hosts}"


def one_more(cluster: Cluster, options: Options, rank: int, slots: Set[int]) -> Peer:
    """A newcomer on this host, at a port that no peer of the job had before.

    Args:
        cluster: The cluster that it joins.
        options: The options of the command line.
        rank: Its rank.
        slots: The slots of this host that are taken.

    Raises:
        LaunchError: If there is no port left.
    """
    port = cluster.reservation.take_another(options.port_range)
    slot = next(slot for slot in itertools.count() if slot not in slots)
    return Peer(rank, cluster.here, port, slot, slot)


def plan(options: Options, workers: Sequence[str] | None = None) -> Cluster:
    """Works out the cluster that a command line asks for, and reserves this host's ports.

    Args:
        options: The options of the command line.
        workers: The peers of a document, if there is one. If -np is fewer, only the first of them
            are used; if it is more, others are added on hosts with free slots.

    Raises:
        LaunchError: If there are too few slots or ports, or the hosts do not fit.
    """
    if workers is not None:
        return _plan_workers(options, hosts_module.parse_places(",".join(workers), "workers"))
    if options.peers is not None:
        return _plan_places(options, hosts_module.parse_places(options.peers))
    hosts = hosts_of(options)
    here = hosts_module.find_self(
        [host.address for host in hosts], self_address=options.self_address, nic=options.nic
    )
    return _plan_hosts(options, hosts, here)


def hosts_of(options: Options) -> list[Host]:
    """The hosts that a command line names.

    Raises:
        LaunchError: If they cannot be parsed.
    """
    if options.peers is not None:
        places = hosts_module.parse_places(options.peers)
        room = collections.Counter(place.address for place in places)
        return [Host(address, room[address]) for address in room]
    if options.hosts is not None:
        return hosts_module.parse_hosts(options.hosts)
    if options.hostfile is not None:
        return hosts_module.read_hostfile(options.hostfile)
    if options.host_script is not None:
        return host_script.ask(options.host_script)
    # KungFu starts as many peers as a program asks for.
    is_free = options.watch and "kungfu" in options.compat
    cores = _MOST if is_free else len(os.sched_getaffinity(0))
    slots = options.max_np or max(cores, _processes(options))
    return [Host(ipaddress.IPv4Address("127.0.0.1"), slots)]


def _processes(options: Options) -> int:
    """How many processes the job begins with."""
    return (options.np or 1) + options.spares


def _plan_hosts(options: Options, hosts: list[Host], here: IPAddress) -> Cluster:
    np = options.np or 1
    slots = sum(host.slots for host in hosts)
    if _processes(options) > slots:
        what = f"-np {np}{f' and -spares {options.spares}' if options.spares else ''}"
        message = f"{what} is more than the {plural(slots, 'slot')} of {_describe(hosts)}"
        raise LaunchError(errors.linked("slots", message))
    used: list[tuple[Host, int]] = []
    left = np
    for host in hosts:
        if left:
            used.append((host, min(left, host.slots)))
            left -= used[-1][1]
    first, last = options.port_range
    most = max(count for _, count in used)
    if most > last - first + 1:
        raise LaunchError(
            f"-port-range {first}-{last} has no room for {plural(most, 'peer')} of one host"
        )
    reservation = ports.Reservation(here)
    alone = len(used) == 1 and not (options.watch and len(hosts) > 1)
    if alone and used[0][0].address == here:
        numbers = reservation.take_free(np, options.port_range)
    else:
        # Every runner must arrive at the same list without asking the others.
        numbers = list(range(first, first + most))
        reservation.take(numbers[: next((n for host, n in used if host.address == here), 0)])
    places = [Place(host.address, numbers[i], None) for host, count in used for i in range(count)]
    takes_part = hosts if options.watch else [host for host, _ in used]
    return Cluster(_ranked(places), here, tuple(takes_part), reservation)


def _plan_places(options: Options, places: list[Place]) -> Cluster:
    slots = len(places)
    np = options.np or slots
    if np > slots:
        raise LaunchError(f"-np {np} is more than the {plural(slots, 'peer')} of -P")
    room = collections.Counter(place.address for place in places)
    places = places[:np]
    addresses = list(room if options.watch else dict.fromkeys(place.address for place in places))
    hosts_module.check_reachable(addresses)
    here = hosts_module.find_self(addresses, self_address=options.self_address, nic=options.nic)
    reservation = ports.Reservation(here)
    reservation.take([place.port for place in places if place.address == here])
    hosts = tuple(Host(address, room[address]) for address in addresses)
    return Cluster(_ranked(places), here, hosts, reservation)


def _plan_workers(options: Options, places: list[Place]) -> Cluster:
    hosts = hosts_of(options)
    np = options.np or len(places)
    places = places[:np]
    engaged = collections.Counter(place.address for place in places)
    rooms = {host.address: host.slots for host in hosts}
    for address, count in engaged.items():
        if count > rooms.get(address, 0):
            raise LaunchError(
                f"the document has {plural(count, 'worker')} on {address}, more than the slots of"
                f" {_describe(hosts)}"
            )
    here = hosts_module.find_self(list(rooms), self_address=options.self_address, nic=options.nic)
    reservation = ports.Reservation(here)
    reservation.take([place.port for place in places if place.address == here])
    missing = np - len(places)
    if [host.address for host in hosts] == [here]:
        others = [reservation.take_another(options.port_range) for _ in range(missing)]
        more = [Place(here, port, None) for port in others]
    else:
        more = _more_places(hosts, places, missing, options.port_range)
        reservation.take([place.port for place in more if place.address == here])
    places = places + more
    return Cluster(_ranked(places), here, tuple(hosts), reservation)


def _more_places(
    hosts: list[Host], places: list[Place], count: int, port_range: tuple[int, int]
) -> list[Place]:
    """`count` places besides `places`, which are the same on every host."""
    more: list[Place] = []
    for host in hosts:
        taken = [place.port for place in places if place.address == host.address]
        free = [port for port in range(port_range[0], port_range[1] + 1) if port not in taken]
        more += [Place(host.address, port, None) for port in free[: host.slots - len(taken)]]
    if len(more) < count:
        most = len(places) + len(more)
        raise LaunchError(f"{len(places) + count} peers: the hosts have room for {most}")
    return more[:count]


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
