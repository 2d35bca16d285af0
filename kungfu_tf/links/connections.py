"""A listening socket and its connections, in an event loop.

A stranger is a connection that has not proved its identity yet. Its time is limited, and so is the
number of strangers: one more closes the oldest.
"""

import dataclasses
import selectors
import socket
import time
from collections.abc import Callable

_MOST_UNSENT = 64 << 10


@dataclasses.dataclass(eq=False)
class Connection:
    """A connection. Times are those of time.monotonic().

    Attributes:
        socket: The socket.
        opened: When it was opened.
        heard: When something was received last.
        known: Whether it is no stranger any more.
        received: The bytes after the last complete line.
        unsent: The bytes that wait until the other side takes them.
    """

    socket: socket.socket
    opened: float
    heard: float
    known: bool = False
    received: bytes = b""
    unsent: bytes = b""

    def take_lines(self, longest: int) -> list[str] | None:
        """Returns the complete lines that were received; None if one is longer than `longest`."""
        *lines, self.received = self.received.split(b"\n")
        if any(len(line) > longest for line in [*lines, self.received]):
            return None
        # A text that was cut to length may end inside a character.
        return [line.decode(errors="replace") for line in lines]


class Connections:
    """All connections of a listener. Used by the event loop's thread only.

    Args:
        listener: A listening socket, which is closed with this; None: connections are only added.
        selector: The selector of the event loop. A key's data is called with the events of its
            file.
        most_strangers: The most strangers at a time.
        deadline: Seconds within which a stranger must become known, or is closed.
        readable: Called when there is something to read.
        opened: Called when a connection was accepted.
        closed: Called when a connection was closed.
        admit: Returns whether to accept a connection at all.
    """

    def __init__(
        self,
        listener: socket.socket | None,
        selector: selectors.BaseSelector,
        *,
        most_strangers: int,
        deadline: float,
        readable: Callable[[Connection], None],
        opened: Callable[[Connection], None] = lambda _connection: None,
        closed: Callable[[Connection], None] = lambda _connection: None,
        admit: Callable[[socket.socket], bool] = lambda _socket: True,
    ) -> None:
        self.all: set[Connection] = set()
        self._listener = listener
        self._selector = selector
        self._most_strangers = most_strangers
        self._deadline = deadline
        self._readable = readable
        self._opened = opened
        self._closed = closed
        self._admit = admit
        if listener is not None:
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ, self.accept)

    def add(self, connected: socket.socket) -> Connection:
        """Adds a connection, as a stranger."""
        connected.setblocking(False)
        now = time.monotonic()
        connection = Connection(connected, now, now)
        self.all.add(connection)
        self._selector.register(
            connected, selectors.EVENT_READ, lambda events: self._ready(connection, events)
        )
        return connection

    def accept(self, _events: int = selectors.EVENT_READ) -> Connection | None:
        """Accepts the next connection that waits, if there is one. REQUIRES: a listener."""
        assert self._listener is not None
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return None
        if not self._admit(accepted):
            accepted.close()
            return None
        strangers = self._strangers()
        if len(strangers) >= self._most_strangers:
            self.close(min(strangers, key=lambda entry: entry.opened))
        connection = self.add(accepted)
        self._opened(connection)
        return connection

    def receive(self, connection: Connection, size: int) -> bytes | None:
        """Returns up to `size` bytes that have arrived; None if none have; empty at the end."""
        try:
            data = connection.socket.recv(size)
            connection.heard = time.monotonic()
            return data
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def read_lines(
        self,
        connection: Connection,
        longest: int,
        take: Callable[[Connection, str], bool],
        *,
        longest_of_strangers: int | None = None,
    ) -> None:
        """Reads all that has arrived, line by line.

        It closes the connection at its end, after a line that is too long, and if `take` refuses a
        line.

        Args:
            connection: The connection.
            longest: The most bytes of a line.
            take: Handles a line. Returns False if it is not of the protocol.
            longest_of_strangers: The most bytes of a line of a stranger, if that is less.
        """
        while connection in self.all:
            data = self.receive(connection, longest)
            if data is None:
                return
            connection.received += data
            lines = connection.take_lines(
                longest if connection.known else longest_of_strangers or longest
            )
            # A line may cost the sender its connection. Then the next ones do not count.
            is_right = lines is not None and all(
                connection in self.all and take(connection, line) for line in lines
            )
            if not data or not is_right:
                self.close(connection)

    def send(self, connection: Connection, data: bytes = b"") -> None:
        """Sends as much as the other side takes now, and the rest later.

        It closes the connection if the other side does not read. If it is closed, nothing happens.
        """
        if connection not in self.all:
            return
        connection.unsent += data
        try:
            sent = connection.socket.send(connection.unsent)
            connection.unsent = connection.unsent[sent:]
        except BlockingIOError:
            pass
        except OSError:
            connection.unsent = b""  # the end is handled when it is read
        if len(connection.unsent) > _MOST_UNSENT:
            self.close(connection)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        key = self._selector.get_key(connection.socket)
        self._selector.modify(connection.socket, events, key.data)

    def drop_slow(self) -> None:
        """Closes strangers whose time is over. To be called now and then."""
        latest = time.monotonic() - self._deadline
        for connection in self._strangers():
            if connection.opened < latest:
                self.close(connection)

    def close(self, connection: Connection) -> None:
        """Closes a connection, unless that was done before."""
        if connection not in self.all:
            return
        self.all.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._closed(connection)

    def close_all(self) -> None:
        """Closes all connections and the listener, unless that was done before."""
        for connection in list(self.all):
            self.close(connection)
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _strangers(self) -> list[Connection]:
        return [connection for connection in self.all if not connection.known]

    def _ready(self, connection: Connection, events: int) -> None:
        """Handles an event of a connection, which may have been closed meanwhile."""
        if events & selectors.EVENT_WRITE and connection in self.all:
            self.send(connection)
        if events & ~selectors.EVENT_WRITE and connection in self.all:
            self._readable(connection)
