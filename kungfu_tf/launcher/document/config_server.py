"""Serves the cluster document of a job, and its changes.

GET  /get                  the document; 404 if there is none
GET  /get?unless=3&wait=20 the same as soon as its version is not 3, or after 20 s
PUT  /put                  replaces it; with a "version" only if it still has that one, else 409
POST /reset                makes one, whatever there is
POST /clear                from now on there is none
POST /claim                shows who holds a name: the claimer, unless another one does. It sends
                           {"name": "leader", "holder": "10.0.0.1", "seconds": 4}; 0 gives it up
POST /stop                 ends the server
"""

import math
import selectors
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from kungfu_tf.launcher.channels.json_http import HttpServer, Reply, Request
from kungfu_tf.launcher.document import cluster_document
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.document.store import Conflict, Missing, Problem
from kungfu_tf.launcher.options.launch_error import LaunchError

LONGEST_WAIT = 60.0
LONGEST_CLAIM = 60.0
LONGEST_WORD = 200


class ConfigServer:
    """The server. Used by the event loop's thread only.

    Args:
        store: The store with the document.
        listener: A listening socket, which is closed with this.
        token: The token that each request must carry.
        selector: The selector of the event loop.
        stop: Called for /stop. Returns the reason of a refusal, or None.
    """

    def __init__(
        self,
        store: MemoryStore,
        listener: socket.socket,
        token: str,
        selector: selectors.BaseSelector,
        stop: Callable[[], str | None],
    ) -> None:
        self._store = store
        self._stop = stop
        self._waiting: list[tuple[float, int, Reply]] = []
        self._server = HttpServer(listener, token, selector, self._handle)
        store.watchers.append(self.advance)
        self.close = self._server.close

    def advance(self) -> None:
        """Answers the requests whose time has come. To be called now and then."""
        self._server.drop_slow()
        now, version = time.monotonic(), self._store.version
        due = [entry for entry in self._waiting if entry[0] <= now or entry[1] != version]
        self._waiting = [entry for entry in self._waiting if entry not in due]
        for _, _, reply in due:
            self._get(reply)

    def _handle(self, request: Request, reply: Reply) -> None:
        known = {
            "/get": ("GET", self._wait),
            "/put": ("PUT", self._put),
            "/reset": ("POST", self._reset),
            "/clear": ("POST", self._clear),
            "/claim": ("POST", self._claim),
            "/stop": ("POST", self._end),
        }
        if request.path not in known:
            reply(HTTPStatus.NOT_FOUND, _error(f"there is no {request.path}"))
            return
        method, handler = known[request.path]
        if request.method != method:
            reply(HTTPStatus.METHOD_NOT_ALLOWED, _error(f"{request.path} wants {method}"))
            return
        try:
            handler(request, reply)
        except ValueError as error:
            reply(HTTPStatus.BAD_REQUEST, _error(str(error)))
        except Problem as problem:
            reply(_status(problem), _error(f"the config server {problem}"))

    def _wait(self, request: Request, reply: Reply) -> None:
        unless, wait = request.query.get("unless"), float(request.query.get("wait", "0"))
        if not 0 <= wait < math.inf:
            raise ValueError("'wait' is not a number of seconds")
        if unless is None or int(unless) != self._store.version:
            self._get(reply)
        else:
            due = time.monotonic() + min(wait, LONGEST_WAIT)
            self._waiting.append((due, int(unless), reply))

    def _get(self, reply: Reply) -> None:
        try:
            reply(HTTPStatus.OK, self._store.get().to_json())
        except Missing as problem:
            text = f"the config server {problem}: POST /reset makes one"
            reply(HTTPStatus.NOT_FOUND, _error(text))

    def _put(self, request: Request, reply: Reply) -> None:
        reply(HTTPStatus.OK, self._store.put(cluster_document.parse(request.json())).to_json())

    def _reset(self, request: Request, reply: Reply) -> None:
        reply(HTTPStatus.OK, self._store.reset(cluster_document.parse(request.json())).to_json())

    def _clear(self, _request: Request, reply: Reply) -> None:
        self._store.clear()
        reply(HTTPStatus.OK, {"version": self._store.version})

    def _claim(self, request: Request, reply: Reply) -> None:
        name, holder, seconds = _parse_claim(request.json())
        reply(HTTPStatus.OK, {"holder": self._store.claim(name, holder, seconds)})

    def _end(self, _request: Request, reply: Reply) -> None:
        refusal = self._stop()
        if refusal is None:
            reply(HTTPStatus.OK, {})
        else:
            reply(HTTPStatus.FORBIDDEN, _error(refusal))


def _parse_claim(content: Any) -> tuple[str, str, float]:
    words: dict[str, Any] = content if isinstance(content, dict) else {}
    name, holder, seconds = words.get("name"), words.get("holder"), words.get("seconds")
    if not (_is_word(name) and _is_word(holder)):
        text = f"'name' and 'holder' are not words of at most {LONGEST_WORD} characters"
        raise ValueError(text)
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= LONGEST_CLAIM:
        raise ValueError(f"'seconds' is not a number from 0 to {LONGEST_CLAIM:g}")
    return str(name), str(holder), seconds


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_WORD


def _status(problem: Problem) -> HTTPStatus:
    if isinstance(problem, Missing):
        return HTTPStatus.NOT_FOUND
    if isinstance(problem, Conflict):
        return HTTPStatus.CONFLICT
    return HTTPStatus.INTERNAL_SERVER_ERROR


def _error(text: str) -> dict[str, Any]:
    return {"error": text}


def listen(host: str, port: int) -> socket.socket:
    """Listens on a port. Raises LaunchError if it is not available."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise LaunchError(f"cannot listen on {host} port {port}: {error.strerror}") from None
