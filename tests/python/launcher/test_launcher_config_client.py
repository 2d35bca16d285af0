"""What a client of a config server makes of its answers."""

import socket
import threading

import pytest

from kungfu_tf.launcher.config_client import Client, Conflict, Missing, Problem
from tests.python.launcher.served import DEADLINE, ONE, TOKEN, TWO, Served


def test_what_a_client_makes_of_answers(served: Served) -> None:
    served.store.clear()
    with pytest.raises(Missing):
        Client(served.url, TOKEN).get()
    served.store.reset(TWO)
    with pytest.raises(Conflict):
        Client(served.url, TOKEN).put("/put", {**ONE.to_json(), "version": 0})


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 500 Trouble\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
def test_nonsense_is_a_problem(nonsense: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                accepted.sendall(nonsense)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Problem, match="answer"):
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}", TOKEN).get()
        thread.join(DEADLINE)
