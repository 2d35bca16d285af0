"""-debug-port: the state of this host's peers as JSON over HTTP, for a person with a token.

Listens on 127.0.0.1 only, answers `GET /` with `Authorization: Bearer TOKEN`, and nothing else. A
request has 5 s and 8 KiB; what is too slow, too long or too many is dropped.
"""

import dataclasses
import hmac
import json
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from kungfu_tf.launcher.errors import LaunchError

REQUEST_DEADLINE = 5.0
LONGEST_REQUEST = 8 << 10
MOST_CONNECTIONS = 16

_ANSWER = (
    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    "Connection: close\r\n{header}\r\n"
)


@dataclasses.dataclass(eq=False)
class _Connection:
    socket: socket.socket
    opened: float
    received: bytes = b""
    unsent: bytes = b""


class DebugServer:
    """Used by the event loop's thread only.

    Args:
        port: on 127.0.0.1.
        token_file: where the token is written, readable by this user only.
        state: what to show.

    Raises:
        LaunchError: the port cannot be had.
    """

    def __init__(
        self,
        port: int,
        token_file: str,
        state: Callable[[], Any],
        selector: selectors.BaseSelector,
    ) -> None:
        self._state = state
        self._selector = selector
        self._connections: set[_Connection] = set()
        token = secrets.token_hex(16)
        self._authorization = f"Bearer {token}".encode()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setblocking(False)
        try:
            self._listener.bind(("127.0.0.1", port))
            self._listener.listen(128)
        except OSError as error:
            self._listener.close()
            raise LaunchError(f"-debug-port {port}: {error.strerror}") from None
        with open(os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def drop_slow(self) -> None:
        """Closes connections that take too long. To be called now and then."""
        latest = time.monotonic() - REQUEST_DEADLINE
        for connection in list(self._connections):
            if connection.opened < latest:
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
        if len(self._connections) >= MOST_CONNECTIONS:
            self._close(min(self._connections, key=lambda entry: entry.opened))
        accepted.setblocking(False)
        connection = _Connection(accepted, time.monotonic())
        self._connections.add(connection)
        self._selector.register(
            accepted, selectors.EVENT_READ, lambda events: self._ready(connection, events)
        )

    def _ready(self, connection: _Connection, _events: int) -> None:
        try:
            if connection.unsent:
                connection.unsent = connection.unsent[connection.socket.send(connection.unsent) :]
                if not connection.unsent:
                    self._close(connection)
                return
            data = connection.socket.recv(LONGEST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.received += data
        if not data or len(connection.received) > LONGEST_REQUEST:
            self._close(connection)
        elif b"\r\n\r\n" in connection.received:
            connection.unsent = self._answer(connection.received)
            key = self._selector.get_key(connection.socket)
            self._selector.modify(connection.socket, selectors.EVENT_WRITE, key.data)

    def _answer(self, request: bytes) -> bytes:
        request_line, *headers = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (header.partition(b":") for header in headers)
        }
        if not hmac.compare_digest(fields.get(b"authorization", b""), self._authorization):
            return _response("401 Unauthorized", None, "WWW-Authenticate: Bearer\r\n")
        if request_line.split(b" ")[:2] != [b"GET", b"/"]:
            return _response("404 Not Found", None)
        return _response("200 OK", self._state())

    def _close(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _response(status: str, content: Any, header: str = "") -> bytes:
    body = b"" if content is None else json.dumps(content, indent=1).encode() + b"\n"
    return _ANSWER.format(status=status, length=len(body), header=header).encode() + body
