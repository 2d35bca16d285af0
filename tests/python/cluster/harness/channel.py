"""One JSON object a line over a stream socket."""

from __future__ import annotations

import json
import socket
import time
from typing import Any


class Closed(Exception):
    """The other side has closed."""


class Channel:
    """Sends and receives objects, each call with a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""

    def send(self, message: dict[str, Any], timeout: float) -> None:
        self._connection.settimeout(timeout)
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive(self, timeout: float) -> dict[str, Any]:
        """The next object.

        Raises:
            TimeoutError: none came in time.
            Closed: none will come.
        """
        deadline = time.monotonic() + timeout
        while b"\n" not in self._received:
            self._connection.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._connection.recv(1 << 16)
            except ConnectionResetError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line)

    def close(self) -> None:
        self._connection.close()
