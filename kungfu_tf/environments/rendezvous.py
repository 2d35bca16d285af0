"""Where the processes of a job learn each other's addresses.

Rank 0 listens at the address that the launcher gives. The others connect to it. Both sides prove
that they know the job's secret (links/handshake.py). The address in the hello of a process is
"rank,size,ip,port". When all have come, rank 0 sends each the same line

    peers <run> <ip:port>,<ip:port>,...

or `refused <reason>`. <run> is random: it tells this run from others of the same job.

A process on the host of rank 0 may know itself by a loopback address only. Rank 0 then puts the
address in its place by which the other hosts reach rank 0.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from kungfu_tf import errors
from kungfu_tf.environments.placement import Placement
from kungfu_tf.links.connections import Connection, Connections
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.links.handshake import Asked, Asking

_HANDSHAKE_DEADLINE = 10.0
_AGAIN = 0.2
_LONGEST_LINE = 1 << 20
_LONGEST_HELLO = 256
_MOST_STRANGERS = 1024
_SHOWN = 8  # ranks in a message


class Meeting(NamedTuple):
    """The result: the random name of this run, and the addresses "ip:port" in rank order."""

    run: str
    peers: tuple[str, ...]


class Patience(NamedTuple):
    """How long a process waits for the others.

    Attributes:
        warning: Seconds until a warning says for whom.
        deadline: Seconds until that is an error.
    """

    warning: float
    deadline: float


def meet(place: Placement, credentials: Credentials, port: int, patience: Patience) -> Meeting:
    """Exchanges addresses with all other processes of the job.

    Args:
        place: The place of this process; its meeting place is known.
        credentials: The id and the secret of the job.
        port: The port of this process, which the others shall learn.
        patience: How long it waits.

    Raises:
        DeadlineExceededError: If a process does not come in time; the message names it.
        UnavailableError: If a process ends meanwhile, or rank 0 cannot listen.
        PermissionDeniedError: If rank 0 has another secret.
        FailedPreconditionError: If two processes have the same rank, or tell different sizes.
    """
    wait = _Wait(patience)
    if place.rank == 0:
        return _Leader(place, credentials, port, wait).run()
    return _follow(place, credentials, port, wait)


class _Wait:
    """The time that is left. `check` warns once, and raises at the deadline."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began = time.monotonic()
        self._has_warned = False

    @property
    def left(self) -> float:
        return self._began + self._patience.deadline - time.monotonic()

    def check(self, what: str) -> None:
        elapsed = time.monotonic() - self._began
        if elapsed > self._patience.deadline:
            message = f"after {elapsed:.0f} s {what}"
            raise errors.DeadlineExceededError(errors.linked("environment-waits", message))
        if elapsed > self._patience.warning and not self._has_warned:
            self._has_warned = True
            print(f"kungfu_tf: {what}", file=sys.stderr, flush=True)


class _Leader:
    """Rank 0, which collects the addresses."""

    def __init__(self, place: Placement, credentials: Credentials, port: int, wait: _Wait) -> None:
        self._place, self._credentials, self._port, self._wait = place, credentials, port, wait
        self._asked: dict[Connection, Asked] = {}
        self._came: dict[int, tuple[Connection, str, int]] = {}
        self._refused = 0
        self._failure: errors.KungfuError | None = None
        self._is_over = False

    def run(self) -> Meeting:
        with selectors.DefaultSelector() as selector:
            connections = self._connections = Connections(
                _listen(self._place.meeting_place[1]),
                selector,
                most_strangers=_MOST_STRANGERS,
                deadline=_HANDSHAKE_DEADLINE,
                readable=self._read,
                opened=self._greet,
                closed=self._closed,
            )
            try:
                while len(self._came) + 1 < self._place.size and self._failure is None:
                    self._turn(selector)
                    self._wait.check(self._missing())
                if self._failure is not None:
                    raise self._failure
                meeting = Meeting(secrets.token_hex(8), self._peers())
                self._tell_all(f"peers {meeting.run} {','.join(meeting.peers)}", selector)
                return meeting
            except errors.KungfuError as error:
                self._tell_all(f"refused {error}", selector)
                raise
            finally:
                self._is_over = True
                connections.close_all()

    def _turn(self, selector: selectors.BaseSelector) -> None:
        for key, events in selector.select(_AGAIN):
            key.data(events)
        self._connections.drop_slow()

    def _tell_all(self, line: str, selector: selectors.BaseSelector) -> None:
        self._is_over = True  # from now on they may leave
        told = [connection for connection, _, _ in self._came.values()]
        for connection in told:
            self._connections.send(connection, line.encode() + b"\n")
        ends = time.monotonic() + _HANDSHAKE_DEADLINE
        while any(one.unsent for one in told if one in self._connections.all):
            if time.monotonic() > ends:
                return
            self._turn(selector)

    def _missing(self) -> str:
        missing = [rank for rank in range(1, self._place.size) if rank not in self._came]
        listed = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if missing[_SHOWN:] else "")
        stranger = f"; {self._refused} with another secret or job" if self._refused else ""
        host, port = self._place.meeting_place
        return f"rank 0 waits at {host}:{port} for rank {listed} of {self._place.size}{stranger}"

    def _greet(self, connection: Connection) -> None:
        asked = self._asked[connection] = Asked(self._credentials)
        self._connections.send(connection, asked.greeting.encode() + b"\n")

    def _read(self, connection: Connection) -> None:
        self._connections.read_lines(connection, _LONGEST_HELLO, self._take)

    def _take(self, connection: Connection, line: str) -> bool:
        answer = None if connection.known else self._asked[connection].answer(line)
        if answer is None:
            self._refused += not connection.known
            return False
        rank, size, ip, port = answer[0].split(",")
        if int(size) != self._place.size or not 0 < int(rank) < self._place.size:
            self._fail(f"a process is rank {rank} of {size}, and rank 0 one of {self._place.size}")
        elif int(rank) in self._came:
            self._fail(
                f"two processes are rank {rank}: call kungfu_tf.init() before you start others"
            )
        else:
            connection.known = True
            self._came[int(rank)] = (connection, ip, int(port))
        self._connections.send(connection, answer[1].encode() + b"\n")
        return True

    def _fail(self, reason: str) -> None:
        message = errors.linked("environments-differ", reason)
        self._failure = self._failure or errors.FailedPreconditionError(message)

    def _closed(self, connection: Connection) -> None:
        self._asked.pop(connection, None)
        for rank, (other, ip, _) in self._came.items():
            if other is connection and not self._is_over:
                self._failure = self._failure or errors.UnavailableError(
                    f"rank {rank} ({ip}) has ended before all processes had come"
                )

    def _peers(self) -> tuple[str, ...]:
        names = [_name_of(connection.socket) for connection, _, _ in self._came.values()]
        far = [name for name in names if not _is_loopback(name)]
        here = (far or names)[0]
        peers = [_address(here, self._port)]
        for rank in range(1, self._place.size):
            _, ip, port = self._came[rank]
            peers.append(_address(here if _is_loopback(ip) else ip, port))
        return tuple(peers)


def _follow(place: Placement, credentials: Credentials, port: int, wait: _Wait) -> Meeting:
    host, leader_port = place.meeting_place
    who = f"rank 0 at {host}:{leader_port}"
    while True:
        try:
            deadline = max(0.01, min(wait.left, _HANDSHAKE_DEADLINE))
            with socket.create_connection((host, leader_port), timeout=deadline) as connected:
                meeting = _ask(connected, place, credentials, port, wait, who)
            if meeting is not None:
                return meeting
            reason = "another program answers there"
        except OSError as error:
            reason = str(error)
        wait.check(f"rank {place.rank} waits for {who}: {reason}")
        time.sleep(_AGAIN)


def _ask(
    connected: socket.socket,
    place: Placement,
    credentials: Credentials,
    port: int,
    wait: _Wait,
    who: str,
) -> Meeting | None:
    """The answer of rank 0; None if something else listens there, or nothing yet."""
    if connected.getsockname() == connected.getpeername():  # TCP lets a socket meet itself
        return None
    with connected.makefile("r", encoding="utf-8", errors="replace") as lines:
        claim = f"{place.rank},{place.size},{_name_of(connected)},{port}"
        asking = Asking(credentials, claim)
        hello = asking.hello(lines.readline(_LONGEST_HELLO).rstrip("\n"))
        if hello is None:
            return None
        connected.sendall(hello.encode() + b"\n")
        if not asking.welcomed(lines.readline(_LONGEST_HELLO).rstrip("\n")):
            message = f"{who} has another secret (KUNGFU_SECRET) than rank {place.rank}, or job"
            raise errors.PermissionDeniedError(errors.linked("environment-secret", message))
        return _told(connected, lines.readline, place, wait, who)


def _told(
    connected: socket.socket,
    readline: Callable[[int], str],
    place: Placement,
    wait: _Wait,
    who: str,
) -> Meeting:
    connected.settimeout(max(0.01, wait.left + _HANDSHAKE_DEADLINE))  # rank 0 names who is missing
    with contextlib.suppress(OSError):
        kind, _, rest = readline(_LONGEST_LINE).rstrip("\n").partition(" ")
        if kind == "refused":
            raise errors.FailedPreconditionError(f"{who}: {rest}")
        run, _, peers = rest.partition(" ")
        if kind == "peers" and peers.count(",") == place.size - 1:
            return Meeting(run, tuple(peers.split(",")))
    raise errors.UnavailableError(f"{who} has ended before all processes had come")


def reserve(port: int) -> tuple[int, socket.socket | None]:
    """A port that nobody else gets until the core listens on it, and the socket that holds it.

    Args:
        port: The port that is wanted; 0: any. One that is wanted is not held.
    """
    if port:
        return port, None
    v6 = socket.has_dualstack_ipv6()
    held = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET)
    if v6:
        held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    held.bind(("", 0))
    # Set afterwards: the core may bind the port, too, and others who ask for any do not get it.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held.getsockname()[1], held


def _listen(port: int) -> socket.socket:
    v6 = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if v6 else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=v6, backlog=1024)
    except OSError as error:
        message = (
            f"rank 0 cannot wait for the others at port {port}: {error.strerror}; set "
            "KUNGFU_LEADER=host:port"
        )
        raise errors.UnavailableError(errors.linked("environment-address", message)) from None


def _name_of(connected: socket.socket) -> str:
    """The own address of a connection, as IPv4 where it is that."""
    address = ipaddress.ip_address(connected.getsockname()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_loopback(ip: str) -> bool:
    return ipaddress.ip_address(ip).is_loopback


def _address(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
