"""The hosts of a job, from -H, -hostfile or -P, and which of them is this machine."""

import dataclasses
import ipaddress
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from kungfu_tf import errors
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import interfaces

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_ITEM = re.compile(
    r"(?P<name>\[[^\]]*\]|[^:\[\]]*)(?::(?P<second>[^:]*))?(?::(?P<third>\[[^\]]+\]|[^:\[\]]+))?"
)


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine of the job: the address of its peers, its slots, and its name for ssh."""

    address: IPAddress
    slots: int
    public: str | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Place:
    """An item of -P: one peer. `slot` is the number of its GPU; None: its local rank."""

    address: IPAddress
    port: int
    slot: int | None


def parse_hosts(text: str, source: str = "-H") -> list[Host]:
    """Reads `ip:slots[:public],...`.

    Args:
        text: The list.
        source: The origin of the text, for errors.

    Raises:
        LaunchError: If an item is wrong; it says which, and why.
    """
    hosts = []
    for number, item in enumerate(text.split(","), start=1):
        try:
            hosts.append(_parse_host(item.strip()))
        except ValueError as error:
            raise LaunchError(f"{source}: item {number} '{item}' {error}") from None
    return _checked(source, hosts)


def read_hostfile(path: str) -> list[Host]:
    """Reads a line `ip slots=N [public_addr=ADDRESS]` or `ip:slots[:public]` per host.

    Raises:
        LaunchError: If the file cannot be read, or a line is wrong; it says which, and why.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"-hostfile: cannot read '{path}': {error}") from None
    hosts = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            hosts.append(_parse_host_line(words))
        except ValueError as error:
            raise LaunchError(f"{path}:{number}: '{line.strip()}' {error}") from None
    if not hosts:
        raise LaunchError(f"{path}: names no host")
    return _checked(path, hosts)


def parse_places(text: str, source: str = "-P") -> list[Place]:
    """Reads `ip:port[:slot],...`, the peers in rank order.

    Args:
        text: The list.
        source: The origin of the text, for errors.

    Raises:
        LaunchError: If an item is wrong; it says which, and why.
    """
    places: list[Place] = []
    for number, item in enumerate(text.split(","), start=1):
        try:
            name, port, slot = _split(item.strip())
            if not port:
                raise ValueError("has no port: ip:port")
            place = Place(
                resolve(name),
                _number(port, "port", 1, 65535),
                None if slot is None else _number(slot, "slot", 0, 4095),
            )
            if any((place.address, place.port) == (other.address, other.port) for other in places):
                raise ValueError("is there twice")
        except ValueError as error:
            raise LaunchError(f"{source}: item {number} '{item}' {error}") from None
        places.append(place)
    return places


def resolve(name: str) -> IPAddress:
    """The address of a name, or of an address with or without brackets.

    Raises:
        ValueError: If there is none.
    """
    bare = name[1:-1] if name.startswith("[") else name
    try:
        address: IPAddress = ipaddress.ip_address(bare)
    except ValueError:
        if name.startswith("["):
            raise ValueError(f"has no IPv6 address in its brackets: '{bare}'") from None
        address = _look_up(bare)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.is_link_local:
            raise ValueError("is link-local: it means another host on every interface")
    if address.is_unspecified or address.is_multicast:
        raise ValueError("is not the address of one host")
    return address


def find_self(
    addresses: Sequence[IPAddress], *, self_address: str | None = None, nic: str | None = None
) -> IPAddress:
    """Which of the job's addresses is this machine's: by -self, by -nic, or by its interfaces.

    Raises:
        LaunchError: If none is, more than one is, or the interface does not exist.
    """
    listed = ", ".join(str(address) for address in addresses)
    if self_address is not None:
        try:
            mine = resolve(self_address)
        except ValueError as error:
            raise LaunchError(f"-self: '{self_address}' {error}") from None
        if mine not in addresses:
            raise LaunchError(f"-self: {mine} is not one of the job's hosts: {listed}")
        return mine
    local = interfaces.addresses()
    if nic is not None:
        if nic not in local:
            known = ", ".join(sorted(local))
            raise LaunchError(f"-nic: no interface '{nic}' with an address; there are {known}")
        candidates = set(local[nic])
        where = f"the addresses of {nic}, {', '.join(str(address) for address in local[nic])},"
    else:
        candidates = {address for group in local.values() for address in group}
        candidates.update(address for address in addresses if address.is_loopback)
        where = "this machine's addresses"
    found = [address for address in addresses if address in candidates]
    if not found:
        message = f"none of {where} is one of the job's hosts: {listed}"
        raise LaunchError(errors.linked("addresses", message))
    if len(found) > 1:
        both = ", ".join(str(address) for address in found)
        message = f"several of the job's hosts are this machine ({both}): say -self"
        raise LaunchError(errors.linked("say-self", message))
    return found[0]


def _parse_host(item: str) -> Host:
    name, slots, public = _split(item)
    return Host(resolve(name), 1 if slots is None else _slots(slots), public)


def _parse_host_line(words: list[str]) -> Host:
    if len(words) == 1:
        return _parse_host(words[0])
    slots, public = 1, None
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if key == "slots" and equals:
            slots = _slots(value)
        elif key == "public_addr" and value:
            public = value
        else:
            raise ValueError(f"has '{word}' where slots=N or public_addr=ADDRESS belongs")
    return Host(resolve(words[0]), slots, public)


def _split(item: str) -> tuple[str, str | None, str | None]:
    match = _ITEM.fullmatch(item)
    if match is None or not match["name"]:
        if item.count(":") > 1:
            raise ValueError("is not understood; an IPv6 address goes in brackets, [::1]:2")
        raise ValueError("names no host" if match else "is not understood")
    return match["name"], match["second"], match["third"]


def _slots(text: str) -> int:
    return _number(text, "number of slots", 1, 65535)


def _number(text: str, what: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        raise ValueError(f"has '{text}' as its {what}: it goes from {low} to {high}")
    return int(text)


def _look_up(name: str) -> IPAddress:
    """Prefers IPv4, so that all hosts agree even if their resolvers order addresses differently."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ValueError(f"cannot be resolved: {reason}") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return min(addresses, key=lambda address: (address.version, int(address)))


def _checked(source: str, hosts: list[Host]) -> list[Host]:
    seen: set[IPAddress] = set()
    for host in hosts:
        if host.address in seen:
            raise LaunchError(f"{source}: {host.address} is there twice; add up its slots")
        seen.add(host.address)
    check_reachable([host.address for host in hosts])
    return hosts


def check_reachable(addresses: Sequence[IPAddress]) -> None:
    """Raises LaunchError if some hosts, but not all, have loopback addresses.

    Typical of a host name that a machine's own /etc/hosts maps to 127.0.1.1.
    """
    loopback = [address for address in addresses if address.is_loopback]
    if loopback and len(loopback) < len(addresses):
        message = (
            f"{loopback[0]} is a loopback address, which the other hosts cannot reach:"
            " give the host's address in the network instead of its name"
        )
        raise LaunchError(errors.linked("loopback", message))
