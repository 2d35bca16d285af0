"""-debug-port: the state of this host's peers as JSON over HTTP, for a person with a token.

Listens on 127.0.0.1 only, answers `GET /` with `Authorization: Bearer TOKEN`, and nothing else. A
request has 5 s and 8 KiB; what is too slow, too long or too many is dropped.
"""

import hmac
import json
import os
import secrets
import selectors
import socket
from collections.abc import Callable
from typing import Any

from kungfu_tf.launcher.connections import Connection, Connections
from kungfu_tf.launcher.errors import LaunchError

REQUEST_DEADLINE = 5.0
LONGEST_REQUEST = 8 << 10
MOST_CONNECTIONS = 16

_ANSWER = (
    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    "{header}\r\n"
)


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
        token = secrets.token_hex(16)
        self._authorization = f"Bearer {token}".encode()
        with open(os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        try:
            listener = socket.create_server(("127.0.0.1", port), backlog=128)
        except OSError as error:
            raise LaunchError(f"-debug-port {port}: {os.strerror(error.errno or 0)}") from None
        self._connections = Connections(
            listener,
            selector,
            most_strangers=MOST_CONNECTIONS,
            deadline=REQUEST_DEADLINE,
            readable=self._read,
        )

    def drop_slow(self) -> None:
        """Closes connections that take too long. To be called now and then."""
        self._connections.drop_slow()

    def close(self) -> None:
        self._connections.close_all()

    def _read(self, connection: Connection) -> None:
        data = self._connections.receive(connection, LONGEST_REQUEST)
        if data is None:
            return
        connection.received += data
        if not data or len(connection.received) > LONGEST_REQUEST:
            self._connections.close(connection)
        elif b"\r\n\r\n" in connection.received:
            answer = self._answer(connection.received)
            connection.received = b""
            self._connections.send(connection, answer)

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


def _response(status: str, content: Any, header: str = "") -> bytes:
    body = b"" if content is None else json.dumps(content, indent=1).encode() + b"\n"
    return _ANSWER.format(status=status, length=len(body), header=header).encode() + body
