"""-debug-port: serves the state of this host's peers as JSON over HTTP, to a person with a token.

It listens on 127.0.0.1 only, and answers only `GET /`.
"""

import os
import selectors
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.channels.json_http import HttpServer, Reply, Request
from kungfu_tf.launcher.options.launch_error import LaunchError


class DebugServer:
    """The server. Used by the event loop's thread only.

    Args:
        port: The port on 127.0.0.1.
        token_file: The file that the token is written to, for this user only.
        state: Returns what to show.
        selector: The selector of the event loop.

    Raises:
        LaunchError: If the port is not available.
    """

    def __init__(
        self,
        port: int,
        token_file: str,
        state: Callable[[], Any],
        selector: selectors.BaseSelector,
    ) -> None:
        self._state = state
        token = credentials.new_token(token_file)
        try:
            listener = socket.create_server(("127.0.0.1", port), backlog=128)
        except OSError as error:
            raise LaunchError(f"-debug-port {port}: {os.strerror(error.errno or 0)}") from None
        self._server = HttpServer(listener, token, selector, self._answer)
        self.drop_slow = self._server.drop_slow
        self.close = self._server.close

    def _answer(self, request: Request, reply: Reply) -> None:
        if (request.method, request.path) == ("GET", "/"):
            reply(HTTPStatus.OK, self._state())
        else:
            reply(HTTPStatus.NOT_FOUND, None)
