"""-debug-port: who may see the state of the peers, and that nobody can hold it up."""

import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import ports

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs, Launch

PROGRAM = "import signal\nprint('ready', flush=True)\nsignal.pause()"


@pytest.fixture
def served(kungfu_run: "Jobs") -> Iterator[tuple["Launch", int, str]]:
    """A job of two, the port of its state, and the token."""
    port = ports.take()[0]
    command = (sys.executable, "-S", "-c", PROGRAM)
    launch = kungfu_run("-np", "2", "-debug-port", str(port), *command)
    launch.until_printed("ready", times=2)
    (folder,) = kungfu_run.temporary.iterdir()
    token_file = folder / "debug-token"
    assert token_file.stat().st_mode & 0o777 == 0o600
    yield launch, port, token_file.read_text().strip()
    launch.process.terminate()
    assert launch.wait() == 143


def get(port: int, path: str, token: str) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_state_is_shown_to_who_has_the_token(served: tuple["Launch", int, str]) -> None:
    _, port, token = served
    status, body = get(port, "/", token)
    assert status == 200
    state = json.loads(body)
    assert state["size"] == 2
    assert [peer["rank"] for peer in state["peers"]] == [0, 1]
    assert all(peer["exit_code"] is None and peer["pid"] > 0 for peer in state["peers"])
    assert get(port, "/", "guessed") == (401, b"")
    assert get(port, "/", "") == (401, b"")
    assert get(port, "/stop", token) == (404, b"")


def test_strangers_hold_nobody_up(served: tuple["Launch", int, str]) -> None:
    _, port, token = served
    strangers = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(40)]
    for stranger, garbage in zip(strangers, (b"\0" * 100, b"GET / HTTP/1.1\r\n"), strict=False):
        stranger.sendall(garbage)
    assert get(port, "/", token)[0] == 200
    for stranger in strangers:
        stranger.close()
    with socket.create_connection(("127.0.0.1", port), 20) as flood:
        flood.settimeout(20)
        try:
            flood.sendall(b"x" * 100_000)
            assert flood.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert get(port, "/", token)[0] == 200


def test_it_listens_on_loopback_only(served: tuple["Launch", int, str]) -> None:
    _, port, _ = served
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 20)


def test_a_port_in_use(kungfu_run: "Jobs") -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        launch = kungfu_run("-debug-port", str(port), "true")
        assert launch.wait() == 2
        assert f"-debug-port {port}: Address already in use" in launch.err
