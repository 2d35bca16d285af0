"""The config server, over real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from kungfu_tf.launcher.document.http_store import HttpStore
from tests.python.launcher.served import DEADLINE, ONE, TOKEN, TWO, Served


def ask(served: Served, path: str, *, method: str = "GET", body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(served.url + path, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return json.load(answer)


def refused(served: Served, path: str, method: str, body: bytes) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(served, path, method=method, body=body)
    with caught.value as error:
        return error.code, json.load(error)["error"]


def test_the_routes(served: Served) -> None:
    assert ask(served, "/get") == {**ONE.to_json(), "version": 0}
    body = json.dumps({"workers": TWO.workers, "version": 0}).encode()
    assert ask(served, "/put", method="PUT", body=body)["version"] == 1
    assert refused(served, "/put", "PUT", body)[0] == 409
    assert refused(served, "/put", "PUT", b"{")[0] == 400
    assert refused(served, "/put", "POST", body)[0] == 405
    assert refused(served, "/nowhere", "PUT", body)[0] == 404
    assert refused(served, "/put", "PUT", b"x" * 100_000)[0] == 413
    assert ask(served, "/clear", method="POST") == {"version": 2}
    assert refused(served, "/put", "PUT", b'{"workers": ["a:1"]}')[0] == 404
    assert ask(served, "/reset", method="POST", body=body)["version"] == 3


@pytest.mark.parametrize(
    "request_line",
    [
        "GET //[x HTTP/1.1",
        "GET /get?unless=x HTTP/1.1",
        "GET /get?unless=0&wait=nan HTTP/1.1",
        "GET /get?wait=1e999 HTTP/1.1",
        "GET /%ff%00 HTTP/1.1",
        "GET get HTTP/1.1",
        "GET /get HTTP/9.9",
        "PUT /put HTTP/1.1\r\nContent-Length: x",
        "PUT /put HTTP/1.1\r\nContent-Length: -1",
        "\0\0",
    ],
)
def test_nonsense_costs_nobody_else_anything(served: Served, request_line: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=DEADLINE) as client:
        client.sendall(f"{request_line}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 4")
    assert ask(served, "/get")["version"] == 0


def test_who_is_too_long_or_says_nothing_is_dropped(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=DEADLINE) as client:
        client.sendall(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(4096) == b""
    idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(40)]
    assert ask(served, "/get")["version"] == 0
    for one in idle:
        one.close()


def test_who_is_refused_may_say_the_rest_of_it(served: Served) -> None:
    head = f"PUT /put HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=DEADLINE) as client:
        client.sendall(head.encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 413")
        for _ in range(10):
            client.sendall(b"x" * 10_000)
            assert ask(served, "/get")["version"] == 0  # by then it has been heard


def test_who_waits_hears_of_the_next_change(served: Served) -> None:
    heard: list[Any] = []
    store = HttpStore(served.url, TOKEN)
    waiting = threading.Thread(target=lambda: heard.append(store.get(unless=0)))
    waiting.start()
    store.put(TWO)
    waiting.join(DEADLINE)
    assert heard[0].version == 1
    assert ask(served, "/get?unless=1&wait=0.1")["version"] == 1


def test_without_the_token_there_is_nothing(served: Served) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{served.url}/stop", data=b"", timeout=DEADLINE)
    with caught.value as error:
        assert error.code == 401
    assert ask(served, "/get")["version"] == 0
