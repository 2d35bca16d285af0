"""The control connection between the runner and each of its peers, over a Unix socket.

UTF-8 lines that end in a newline and have at most 4096 bytes before it:

  peer -> runner   hello <rank> <pid>     first of all, within 5 s
                   alive                  every second
                   report <text>          an error that this peer saw
  runner -> peer   failed <rank> <text>   that peer's process has failed

Before a correct hello nothing is believed. Whatever else arrives costs its sender the connection,
and nobody else anything.
"""

import dataclasses
import os
import re
import selectors
import socket
import struct
import time
from collections.abc import Iterable

LONGEST_LINE = 4096
HELLO_DEADLINE = 5.0
MOST_STRANGERS = 64
MOST_REPORTS = 8

_HELLO = re.compile(r"hello ([0-9]{1,7}) ([0-9]{1,10})")
_MOST_UNSENT = 64 << 10


@dataclasses.dataclass
class Contact:
    """What the runner knows of a peer from its connection. Times are of time.monotonic()."""

    connected: bool = False
    heard: float | None = None
    lost: float | None = None
    reports: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class _Connection:
    socket: socket.socket
    opened: float
    rank: int | None = None
    received: bytearray = dataclasses.field(default_factory=bytearray)
    unsent: bytearray = dataclasses.field(default_factory=bytearray)


class ControlServer:
    """The runner's side. Used by the event loop's thread only.

    Args:
        path: of the socket, in a directory that only this user may enter.
        ranks: of this host; a hello of any other is refused.
        selector: of the event loop; a key's data is called with the events of its file.
    """

    def __init__(self, path: str, ranks: Iterable[int], selector: selectors.BaseSelector) -> None:
        self.contacts = {rank: Contact() for rank in ranks}
        self._selector = selector
        self._connections: set[_Connection] = set()
        self._failed: tuple[int, bytes] | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(path)
        self._listener.listen(128)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def announce(self, rank: int, text: str) -> None:
        """Tells every other peer, also one that connects later, that `rank` has failed."""
        line = f"failed {rank} {_one_line(text)}".encode()[:LONGEST_LINE]
        self._failed = (rank, line.decode(errors="ignore").encode() + b"\n")
        for connection in list(self._connections):
            self._tell(connection)

    def drain(self, rank: int) -> None:
        """Reads what a peer that has ended still said."""
        for connection in list(self._connections):
            if connection.rank == rank or connection.rank is None:
                self._read(connection)

    def drop_strangers(self) -> None:
        """Closes connections that have not said hello in time. To be called now and then."""
        latest = time.monotonic() - HELLO_DEADLINE
        for connection in list(self._connections):
            if connection.rank is None and connection.opened < latest:
                self._close(connection)

    def close(self) -> None:
        for connection in list(self._connections):
            self._close(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self, _events: int) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        if _user_of(accepted) not in (os.geteuid(), 0):
            accepted.close()
            return
        strangers = [entry for entry in self._connections if entry.rank is None]
        if len(strangers) >= MOST_STRANGERS:
            self._close(min(strangers, key=lambda entry: entry.opened))
        accepted.setblocking(False)
        connection = _Connection(accepted, time.monotonic())
        self._connections.add(connection)
        self._selector.register(
            accepted, selectors.EVENT_READ, lambda events: self._ready(connection, events)
        )

    def _ready(self, connection: _Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send(connection)
        if events & selectors.EVENT_READ and connection in self._connections:
            self._read(connection)

    def _read(self, connection: _Connection) -> None:
        """Takes what has arrived, line by line, until there is no more for now."""
        while connection in self._connections:
            try:
                data = connection.socket.recv(LONGEST_LINE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._close(connection)
                return
            connection.received += data
            if not self._take_lines(connection):
                self._close(connection)

    def _take_lines(self, connection: _Connection) -> bool:
        """False if the peer has broken the protocol."""
        *lines, rest = connection.received.split(b"\n")
        connection.received = rest
        if any(len(line) > LONGEST_LINE for line in [*lines, rest]):
            return False
        for line in lines:
            try:
                text = line.decode()
            except UnicodeDecodeError:
                return False
            if not self._handle(connection, text):
                return False
        return True

    def _handle(self, connection: _Connection, line: str) -> bool:
        if connection.rank is None:
            return self._hello(connection, line)
        contact = self.contacts[connection.rank]
        contact.heard = time.monotonic()
        if line == "alive":
            return True
        command, space, text = line.partition(" ")
        if command != "report" or not space:
            return False
        if len(contact.reports) < MOST_REPORTS:
            contact.reports.append(_one_line(text))
        return True

    def _hello(self, connection: _Connection, line: str) -> bool:
        match = _HELLO.fullmatch(line)
        if match is None:
            return False
        contact = self.contacts.get(int(match[1]))
        if contact is None or contact.connected:
            return False
        connection.rank = int(match[1])
        contact.connected, contact.heard, contact.lost = True, time.monotonic(), None
        self._tell(connection)
        return True

    def _tell(self, connection: _Connection) -> None:
        if self._failed is not None and connection.rank not in (None, self._failed[0]):
            connection.unsent += self._failed[1]
            self._send(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            del connection.unsent[: connection.socket.send(connection.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            connection.unsent.clear()  # its end is seen, and handled, when it is read
        if len(connection.unsent) > _MOST_UNSENT:
            self._close(connection)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        key = self._selector.get_key(connection.socket)
        self._selector.modify(connection.socket, events, key.data)

    def _close(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.rank is not None:
            contact = self.contacts[connection.rank]
            contact.connected, contact.lost = False, time.monotonic()


def _user_of(accepted: socket.socket) -> int:
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack(
        "3i", accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return int(uid)


def _one_line(text: str) -> str:
    """Without characters that could end a line or steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
