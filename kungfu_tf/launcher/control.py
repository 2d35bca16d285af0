"""The control connection between the runner and each of its peers, over a Unix socket.

UTF-8 lines that end in a newline and have at most 4096 bytes before it:

  peer -> runner   hello <rank> <pid>     first of all, within 5 s
                   alive                  every second
                   report <text>          an error that this peer saw
  runner -> peer   failed <rank> <text>   that peer's process has failed
                   left <rank>            that peer's process has ended well

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
from collections.abc import Iterable, Sequence

from kungfu_tf.launcher.connections import Connection, Connections

LONGEST_LINE = 4096
HELLO_DEADLINE = 5.0
MOST_STRANGERS = 64
MOST_REPORTS = 8

_HELLO = re.compile(r"hello ([0-9]{1,7}) ([0-9]{1,10})")


@dataclasses.dataclass
class Contact:
    """What the runner knows of a peer from its connection. Times are of time.monotonic()."""

    connected: bool = False
    heard: float | None = None
    lost: float | None = None
    reports: list[str] = dataclasses.field(default_factory=list)


class ControlServer:
    """The runner's side. Used by the event loop's thread only.

    Args:
        path: of the socket, in a directory that only this user may enter.
        ranks: of this host; a hello of any other is refused.
        selector: of the event loop; a key's data is called with the events of its file.
        hello_deadline: seconds.
    """

    def __init__(
        self,
        path: str,
        ranks: Iterable[int],
        selector: selectors.BaseSelector,
        *,
        hello_deadline: float = HELLO_DEADLINE,
    ) -> None:
        self.contacts = {rank: Contact() for rank in ranks}
        self._ranks: dict[Connection, int] = {}
        self._announced: list[tuple[int, bytes]] = []
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(128)
        self._connections = Connections(
            listener,
            selector,
            most_strangers=MOST_STRANGERS,
            deadline=hello_deadline,
            readable=self._read,
            closed=self._lost,
            admit=lambda accepted: _user_of(accepted) in (os.geteuid(), 0),
        )

    def announce(self, rank: int, text: str) -> None:
        """Tells every other peer, also one that connects later, that `rank` has failed."""
        self._announce(rank, f"failed {rank} {_one_line(text)}")

    def announce_left(self, rank: int) -> None:
        """Tells them that `rank` has ended well: who still waits for it does so in vain."""
        self._announce(rank, f"left {rank}")

    def _announce(self, rank: int, text: str) -> None:
        line = text.encode()[:LONGEST_LINE].decode(errors="ignore").encode() + b"\n"
        self._announced.append((rank, line))
        for connection in list(self._ranks):
            self._tell(connection, [(rank, line)])

    def drain(self, rank: int) -> None:
        """Reads what a peer that has ended still said."""
        for connection in list(self._connections.all):
            if self._ranks.get(connection, rank) == rank:
                self._read(connection)

    def drop_strangers(self) -> None:
        """Closes connections that have not said hello in time. To be called now and then."""
        self._connections.drop_slow()

    def close(self) -> None:
        self._connections.close_all()

    def _read(self, connection: Connection) -> None:
        """Takes what has arrived, line by line, until there is no more for now."""
        while connection in self._connections.all:
            data = self._connections.receive(connection, LONGEST_LINE)
            if data is None:
                return
            connection.received += data
            if not data or not self._take_lines(connection):
                self._connections.close(connection)

    def _take_lines(self, connection: Connection) -> bool:
        """False if the peer has broken the protocol."""
        *lines, connection.received = connection.received.split(b"\n")
        if any(len(line) > LONGEST_LINE for line in [*lines, connection.received]):
            return False
        # A report that was cut to length may end inside a character.
        return all(self._handle(connection, line.decode(errors="replace")) for line in lines)

    def _handle(self, connection: Connection, line: str) -> bool:
        if connection not in self._ranks:
            return self._hello(connection, line)
        contact = self.contacts[self._ranks[connection]]
        contact.heard = time.monotonic()
        if line == "alive":
            return True
        command, space, text = line.partition(" ")
        if command != "report" or not space:
            return False
        if len(contact.reports) < MOST_REPORTS:
            contact.reports.append(_one_line(text))
        return True

    def _hello(self, connection: Connection, line: str) -> bool:
        match = _HELLO.fullmatch(line)
        if match is None:
            return False
        rank = int(match[1])
        contact = self.contacts.get(rank)
        if contact is None or contact.connected:
            return False
        self._ranks[connection] = rank
        connection.known = True
        contact.connected, contact.heard, contact.lost = True, time.monotonic(), None
        self._tell(connection, self._announced)
        return True

    def _tell(self, connection: Connection, news: Sequence[tuple[int, bytes]]) -> None:
        lines = [line for rank, line in news if rank != self._ranks[connection]]
        if lines:
            self._connections.send(connection, b"".join(lines))

    def _lost(self, connection: Connection) -> None:
        rank = self._ranks.pop(connection, None)
        if rank is not None:
            contact = self.contacts[rank]
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
