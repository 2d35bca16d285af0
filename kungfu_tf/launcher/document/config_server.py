"""Serves the cluster document of a job, and its changes.

GET  /get                  the document; 404 if there is none
GET  /get?unless=3&wait=20 the same as soon as its version is not 3, or after 20 s
PUT  /put                  replaces it; with a "version" only if it still has that one, else 409
POST /reset                makes one, whatever there is
POST /clear                from now on there is none
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
from kungfu_tf.launcher.document import cluster_store
from kungfu_tf.launcher.document.cluster_store import ClusterStore, Conflict
from kungfu_tf.launcher.options.launch_error import LaunchError

LONGEST_WAIT = 60.0


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
        store: ClusterStore,
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
        except Conflict as error:
            missing = self._store.document is None
            status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.CONFLICT
            reply(status, _error(str(error)))
        except OSError as error:
            reply(HTTPStatus.INTERNAL_SERVER_ERROR, _error(f"cannot be kept: {error.strerror}"))

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
        document = self._store.document
        if document is None:
            reply(HTTPStatus.NOT_FOUND, _error("there is no document: POST /reset makes one"))
        else:
            reply(HTTPStatus.OK, document.to_json())

    def _put(self, request: Request, reply: Reply) -> None:
        reply(HTTPStatus.OK, self._store.put(cluster_store.parse(request.json())).to_json())

    def _reset(self, request: Request, reply: Reply) -> None:
        reply(HTTPStatus.OK, self._store.reset(cluster_store.parse(request.json())).to_json())

    def _clear(self, _request: Request, reply: Reply) -> None:
        self._store.clear()
        reply(HTTPStatus.OK, {"version": self._store.version})

    def _end(self, _request: Request, reply: Reply) -> None:
        refusal = self._stop()
        if refusal is None:
            reply(HTTPStatus.OK, {})
        else:
            reply(HTTPStatus.FORBIDDEN, _error(refusal))


def _error(text: str) -> dict[str, Any]:
    return {"error": text}


def listen(host: str, port: int) -> socket.socket:
    """Listens on a port. Raises LaunchError if it is not available."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise LaunchError(f"cannot listen on {host} port {port}: {error.strerror}") from None
