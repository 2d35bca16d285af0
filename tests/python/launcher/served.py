"""A config server to ask, and documents for it."""

from __future__ import annotations

import selectors
import socket
import threading

from kungfu_tf.launcher import config_server
from kungfu_tf.launcher.config_server import ConfigServer
from kungfu_tf.launcher.store import ClusterStore, Document
from tests import ports

TOKEN = "a token that is long enough"
DEADLINE = 60.0
ONE = Document(("10.0.0.1:9999",), ("10.0.0.1:10000",))
TWO = Document(("10.0.0.1:9999",), ("10.0.0.1:10000", "10.0.0.1:10001"))


def kept(document: Document = ONE) -> ClusterStore:
    result = ClusterStore()
    result.reset(document)
    return result


class Served:
    """A server on a thread of its own, which may end and come again at the same port."""

    def __init__(self, kept: ClusterStore) -> None:
        self.store = kept
        self.port = ports.take()[0]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        listener = config_server.listen("127.0.0.1", self.port)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listener,))
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self.store.watchers.clear()

    def _run(self, listener: socket.socket) -> None:
        with selectors.PollSelector() as selector:
            server = ConfigServer(self.store, listener, TOKEN, selector, self._ended.set)
            while not self._ended.is_set():
                for key, events in selector.select(0.05):
                    key.data(events)
                server.advance()
            server.close()
