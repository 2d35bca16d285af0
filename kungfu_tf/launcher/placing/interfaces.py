"""The addresses of this machine's network interfaces, from the kernel by rtnetlink."""

import ipaddress
import socket
import struct
from collections.abc import Iterator

_RTM_NEWADDR = 20
_RTM_GETADDR = 22
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_DONE = 3
_NLMSG_ERROR = 2
_IFA_ADDRESS = 1
_IFA_LOCAL = 2

_MESSAGE = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_IFADDR = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface index
_ATTRIBUTE = struct.Struct("=HH")  # length, type


def addresses() -> dict[str, list[ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    """The addresses of each interface that has some, by its name, IPv4 first."""
    names = dict(socket.if_nameindex())
    result: dict[str, list[ipaddress.IPv4Address | ipaddress.IPv6Address]] = {}
    for index, address in _dump():
        if index in names:
            result.setdefault(names[index], []).append(address)
    for group in result.values():
        group.sort(key=lambda address: address.version)
    return result


def _dump() -> Iterator[tuple[int, ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.settimeout(5)
        size = _MESSAGE.size + _IFADDR.size
        request = _MESSAGE.pack(size, _RTM_GETADDR, _NLM_F_REQUEST_DUMP, 1, 0)
        netlink.send(request + _IFADDR.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
        while True:
            for kind, body in _messages(netlink.recv(1 << 16)):
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    raise OSError("the kernel does not list this machine's addresses")
                if kind == _RTM_NEWADDR:
                    yield from _address(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _MESSAGE.size:
        length, kind, *_ = _MESSAGE.unpack_from(data)
        if length < _MESSAGE.size:
            return
        yield kind, data[_MESSAGE.size : length]
        data = data[_aligned(length) :]


def _address(body: bytes) -> Iterator[tuple[int, ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    family, _, _, _, index = _IFADDR.unpack_from(body)
    found: dict[int, bytes] = {}
    body = body[_IFADDR.size :]
    while len(body) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(body)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = body[_ATTRIBUTE.size : length]
        body = body[_aligned(length) :]
    # On a point-to-point link IFA_ADDRESS is the other end. IFA_LOCAL is ours, if it is there.
    packed = found.get(_IFA_LOCAL, found.get(_IFA_ADDRESS))
    if packed and family in (socket.AF_INET, socket.AF_INET6):
        yield index, ipaddress.ip_address(packed)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
