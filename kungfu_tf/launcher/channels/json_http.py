"""JSON over HTTP for people and programs with a token, in an event loop.

Every request needs the header `Authorization: Bearer TOKEN`. Its time, 5 s, and its size are
limited. Requests that are too slow, too long or too many are dropped. A connection serves one
request.
"""

import dataclasses
import hmac
import json
import re
import selectors
import socket
import time
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from kungfu_tf.links.connections import Connection, Connections

REQUEST_DEADLINE = 5.0
LONGEST_HEAD = 8 << 10
LONGEST_BODY = 64 << 10
MOST_CONNECTIONS = 16  # without a complete request
MOST_WAITING = 64  # requests whose answers come later

_REQUEST_LINE = re.compile(rb"([A-Z]{1,10}) (/[!-~]*) HTTP/1\.[01]")


@dataclasses.dataclass(frozen=True)
class Request:
    """A request. Its query has the first value of each name."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The value of the body.

        Raises:
            ValueError: If the body is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ValueError("the body is not JSON") from None


# Called once, now or later, with the status and the content, which becomes JSON.
Reply = Callable[[HTTPStatus, Any], None]


class HttpServer:
    """The server. Used by the event loop's thread only.

    Args:
        listener: A listening socket, which is closed with this.
        token: The token that each request must carry.
        selector: The selector of the event loop.
        handle: Called with each request, and the function by which it replies.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str,
        selector: selectors.BaseSelector,
        handle: Callable[[Request, Reply], None],
    ) -> None:
        self._authorization = f"Bearer {token}".encode()
        self._handle = handle
        self._waiting: set[Connection] = set()
        self._answered: set[Connection] = set()
        self._connections = Connections(
            listener,
            selector,
            most_strangers=MOST_CONNECTIONS,
            deadline=REQUEST_DEADLINE,
            readable=self._read,
            closed=self._forget,
        )

    def drop_slow(self) -> None:
        """Closes connections that take too long. To be called now and then."""
        self._connections.drop_slow()

    def close(self) -> None:
        self._connections.close_all()

    def _read(self, connection: Connection) -> None:
        data = self._connections.receive(connection, LONGEST_BODY)
        if data is None or (data and connection in self._answered):
            return
        connection.received += data
        if not data or len(connection.received) > LONGEST_HEAD + LONGEST_BODY:
            self._connections.close(connection)
        elif not connection.known:
            self._take(connection)

    def _forget(self, connection: Connection) -> None:
        self._waiting.discard(connection)
        self._answered.discard(connection)

    def _take(self, connection: Connection) -> None:
        head, end, body = connection.received.partition(b"\r\n\r\n")
        if len(head) > LONGEST_HEAD:
            self._connections.close(connection)
        if not end or len(head) > LONGEST_HEAD:
            return
        request_line, *headers = head.split(b"\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (header.partition(b":") for header in headers)
        }
        line = _REQUEST_LINE.fullmatch(request_line)
        length = fields.get(b"content-length", b"0")
        if not hmac.compare_digest(fields.get(b"authorization", b""), self._authorization):
            self._answer(connection, HTTPStatus.UNAUTHORIZED, None)
        elif line is None or not re.fullmatch(rb"[0-9]{1,9}", length):
            self._answer(connection, HTTPStatus.BAD_REQUEST, {"error": "this is not understood"})
        elif int(length) > LONGEST_BODY:
            error = {"error": f"the body has more than {LONGEST_BODY} bytes"}
            self._answer(connection, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
        elif len(body) >= int(length):
            path, _, words = line[2].decode().partition("?")
            query = {name: value[0] for name, value in urllib.parse.parse_qs(words).items()}
            request = Request(line[1].decode(), path, query, body[: int(length)])
            self._ask(connection, request)

    def _ask(self, connection: Connection, request: Request) -> None:
        connection.known = True
        self._waiting.add(connection)

        def reply(status: HTTPStatus, content: Any) -> None:
            if connection in self._waiting:
                self._answer(connection, status, content)

        self._handle(request, reply)
        if connection in self._waiting and len(self._waiting) > MOST_WAITING:
            reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"{MOST_WAITING} others wait already"})

    def _answer(self, connection: Connection, status: HTTPStatus, content: Any) -> None:
        """Sends an answer. The client then closes the connection, or is dropped like a slow one.

        The rest of the request is ignored, but read: some clients read no answer before they have
        sent everything.
        """
        self._waiting.discard(connection)
        self._answered.add(connection)
        connection.known, connection.opened, connection.received = False, time.monotonic(), b""
        body = b"" if content is None else json.dumps(content, indent=1).encode() + b"\n"
        extra = "WWW-Authenticate: Bearer\r\n" if status == HTTPStatus.UNAUTHORIZED else ""
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n{extra}\r\n"
        )
        self._connections.send(connection, head.encode() + body)
