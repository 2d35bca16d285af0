"""An HTTP server that answers whoever asks, however many others connect and ask nothing."""

from __future__ import annotations

import contextlib
import io
import socket
import socketserver
import threading
import time
import wsgiref.simple_server
from typing import Any, ClassVar

SECONDS = 5.0  # that a client has to send its request, and to take each part of the answer
MOST_SILENT = 16  # connections, at the same time, that have not sent their request
MOST_CONNECTIONS = 64  # at the same time

_LEAST_SECONDS = 0.05  # that each client has to send its request, however many others come


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """Has a thread for each connection, so that a silent one holds up no other.

    If too many are silent, a newcomer takes the place of the one that has been so for longest. If
    there are too many altogether, newcomers wait.
    """

    daemon_threads = True
    request_queue_size = 128  # newcomers that wait

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        self._silent: dict[socket.socket, float] = {}  # since when, the oldest first

    def process_request(self, request: Any, client_address: Any) -> None:
        while (wait := self._make_room(request)) > 0:
            time.sleep(wait)
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def shutdown_request(self, request: Any) -> None:
        self.has_asked(request)
        super().shutdown_request(request)

    def has_asked(self, request: socket.socket) -> None:
        """Notes that a connection has sent its request, or has ended."""
        with self._lock:
            self._silent.pop(request, None)

    def _make_room(self, request: socket.socket) -> float:
        """Returns the seconds until there is room among the silent; 0: it has taken its place."""
        with self._lock:
            now = time.monotonic()
            if len(self._silent) >= MOST_SILENT:
                oldest, since = next(iter(self._silent.items()))
                if now < since + _LEAST_SECONDS:
                    return since + _LEAST_SECONDS - now
                del self._silent[oldest]
                with contextlib.suppress(OSError):  # the client has ended it
                    oldest.shutdown(socket.SHUT_RDWR)
            self._silent[request] = now
            return 0.0


class Server6(Server):
    """The same for IPv6."""

    address_family = socket.AF_INET6


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """A connection: it has some seconds to send its request."""

    timeout: ClassVar[float] = SECONDS

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_TimedReader(self.connection, self.timeout))

    def handle(self) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError):
            super().handle()

    def get_environ(self) -> dict[str, Any]:
        """The request, which is complete by now."""
        self.server.has_asked(self.request)  # type: ignore[attr-defined]
        environ: dict[str, Any] = super().get_environ()
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


class _TimedReader(io.RawIOBase):
    """Reads from a connection for some seconds. Then reading raises TimeoutError.

    The timeout of a socket holds for each read. So a client that sends single bytes could keep the
    connection open.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)  # for the answer
