"""A config server to ask, and documents for it."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading
from collections.abc import Iterator, Sequence

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.document import config_server
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.config_server import ConfigServer
from kungfu_tf.launcher.document.memory_store import MemoryStore
from tests import ports

TOKEN = "a token that is long enough"
DEADLINE = 60.0
ONE = Document(("10.0.0.1:9999",), ("10.0.0.1:10000",))
TWO = Document(("10.0.0.1:9999",), ("10.0.0.1:10000", "10.0.0.1:10001"))
# What no config server answers.
NONSENSE = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 500 Trouble\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"SSH-2.0-OpenSSH\r\n",
    b"",
]


def kept(document: Document = ONE) -> MemoryStore:
    result = MemoryStore()
    result.reset(document)
    return result


class Served:
    """A server on a thread of its own, which may end and come again at the same port."""

    def __init__(self, kept: MemoryStore) -> None:
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
                event_turn.take(selector, selector.select(0.05))
                server.advance()
            server.close()


@contextlib.contextmanager
def answering(answers: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these in turn, whatever it is asked: its URL, and what that was."""
    asked: list[bytes] = []

    def serve() -> None:
        for answer in itertools.cycle(answers):
            try:
                accepted, _ = listener.accept()
            except OSError:  # it is shut down
                return
            with accepted, contextlib.suppress(OSError):
                asked.append(accepted.recv(4096))
                accepted.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE)
