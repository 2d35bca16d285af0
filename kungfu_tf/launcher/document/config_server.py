"""`kungfu-config-server`: keeps the cluster document of a job, and tells of its changes.

GET  /get                  the document; 404 if there is none
GET  /get?unless=3&wait=20 the same as soon as its version is not 3, or after 20 s
PUT  /put                  replaces it; with a "version" only if it still has that one, else 409
POST /reset                makes one, whatever there is
POST /clear                from now on there is none
POST /stop                 ends the server
"""

import math
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.json_http import HttpServer, Reply, Request
from kungfu_tf.launcher.document import cluster_store
from kungfu_tf.launcher.document.cluster_store import ClusterStore, Conflict
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.launch_error import LaunchError

LONGEST_WAIT = 60.0
DEFAULT_PORT = 9100

_TICK = 0.5
_USAGE = "usage: kungfu-config-server [-host IP] [-port PORT] [-file FILE] [-init FILE]"
_HELP = f"""\
{_USAGE}

Keeps the cluster document of a job that changes its size: kungfu-run -w -config-server URL.

  -host IP     where it listens (default 127.0.0.1)
  -port PORT   (default {DEFAULT_PORT}; 0: any that is free)
  -file FILE   keeps the document there, so that it survives the server
  -init FILE   the document to begin with, where there is none

Environment: KUNGFU_CONFIG_TOKEN, or KUNGFU_CONFIG_TOKEN_FILE names a file whose first line it is;
each request must bring it: Authorization: Bearer TOKEN.

{__doc__.partition(chr(10))[2]}"""


class ConfigServer:
    """A store over HTTP. Used by the event loop's thread only.

    Args:
        store: What it serves.
        listener: Listens already, and is closed with this.
        token: What each request must bring.
        stop: Called for /stop; returns why not, or None.
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
        """Answers whom it is time to answer. To be called now and then."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Runs until it is told to end."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word.lstrip("-") in ("h", "help") for word in words):
        print(_HELP, end="")
        return 0
    try:
        return _serve(_options(words), os.environ)
    except LaunchError as error:
        print(f"kungfu-config-server: {error}", file=sys.stderr)
        return error.exit_code


def _options(words: list[str]) -> dict[str, str]:
    options = {"host": "127.0.0.1", "port": str(DEFAULT_PORT), "file": "", "init": ""}
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in options:
            raise LaunchError(f"there is no '{word}'\n{_USAGE}")
        if not equals and not words:
            raise LaunchError(f"-{name} needs a value\n{_USAGE}")
        options[name] = value if equals else words.pop(0)
    if not options["port"].isdecimal() or int(options["port"]) > 65535:
        raise LaunchError(f"-port: '{options['port']}' is not a port")
    return options


def _serve(options: Mapping[str, str], environ: Mapping[str, str]) -> int:
    token = given_secrets.needed(given_secrets.config_token(environ))
    kept = _open_store(options["file"], options["init"])
    listener = listen(options["host"], int(options["port"]))
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stopped.append(128 + number))
    with selectors.DefaultSelector() as selector:
        server = ConfigServer(kept, listener, token, selector, lambda: stopped.append(0))
        host, port = listener.getsockname()[:2]
        print(f"kungfu-config-server: http://{host}:{port}", flush=True)
        while not stopped:
            event_turn.take(selector, selector.select(_TICK))
            server.advance()
        server.close()
    return stopped[0]


def listen(host: str, port: int) -> socket.socket:
    """Raises LaunchError if the port cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise LaunchError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def _open_store(file: str, init: str) -> ClusterStore:
    if file and not os.access(folder := Path(file).absolute().parent, os.W_OK | os.X_OK):
        raise LaunchError(f"-file: '{file}' cannot be kept: nothing can be written to '{folder}'")
    try:
        kept = ClusterStore(Path(file) if file else None)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchError(f"-file: '{file}' has no document: {error}") from None
    if init and kept.document is None:
        try:
            kept.reset(cluster_store.parse(Request("", "", {}, Path(init).read_bytes()).json()))
        except (OSError, ValueError) as error:
            raise LaunchError(f"-init: '{init}': {error}") from None
    return kept


if __name__ == "__main__":
    sys.exit(main())
