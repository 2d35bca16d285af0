"""The cluster document: the store, the server, and who follows it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kungfu_tf.launcher import config_server, flags, resizing, store
from kungfu_tf.launcher.config_client import Client, Conflict, Missing, Problem
from kungfu_tf.launcher.config_server import ConfigServer
from kungfu_tf.launcher.config_source import OtherServer, OwnServer, Source
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.store import ClusterStore, Document

TOKEN = "a token that is long enough"
DEADLINE = 20.0
ONE = Document(("10.0.0.1:9999",), ("10.0.0.1:10000",))
TWO = Document(("10.0.0.1:9999",), ("10.0.0.1:10000", "10.0.0.1:10001"))


class Served:
    """A server on a thread of its own, which may end and come again at the same port."""

    def __init__(self, kept: ClusterStore) -> None:
        self.store = kept
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        listener = config_server.listen("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
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


@pytest.fixture
def served() -> Iterator[Served]:
    kept = ClusterStore()
    kept.reset(ONE)
    served = Served(kept)
    yield served
    served.stop()


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


def test_a_change_wants_the_version_that_it_replaces(tmp_path: Path) -> None:
    kept = ClusterStore(tmp_path / "cluster.json")
    with pytest.raises(store.Conflict, match="there is no document"):
        kept.put(ONE)
    assert kept.reset(ONE).version == 0
    assert kept.put(Document((), TWO.workers, 0)).version == 1
    with pytest.raises(store.Conflict, match="the version is 1 now, not 0"):
        kept.put(Document((), ONE.workers, 0))
    assert kept.put(Document((), TWO.workers)).version == 1  # the same
    assert ClusterStore(tmp_path / "cluster.json").document == kept.document
    kept.clear()
    again = ClusterStore(tmp_path / "cluster.json")
    assert again.document is None
    assert again.reset(ONE).version == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([], "a document is an object"),
        ({"workers": []}, "at least one"),
        ({"workers": "10.0.0.1:1"}, "not a list"),
        ({"workers": ["10.0.0.1"]}, "not an address and a port"),
        ({"workers": ["10.0.0.1:70000"]}, "not an address and a port"),
        ({"workers": [["10.0.0.1:1"]]}, "not an address and a port"),
        ({"workers": ["a:1", "a:1"]}, "twice"),
        ({"workers": ["a:1"], "runners": 3}, "'runners' is not a list"),
        ({"workers": ["a:1"], "version": True}, "not a number"),
        ({"workers": ["a:1"], "version": -1}, "not a number"),
    ],
)
def test_what_is_no_document(content: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        store.parse(content)


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


def test_who_waits_hears_of_the_next_change(served: Served) -> None:
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(Client(served.url, TOKEN).get(unless=0)))
    waiting.start()
    Client(served.url, TOKEN).put("/put", TWO.to_json())
    waiting.join(DEADLINE)
    assert heard[0][2] == 1
    assert ask(served, "/get?unless=1&wait=0.1")["version"] == 1


def test_without_the_token_there_is_nothing(served: Served) -> None:
    with pytest.raises(Problem, match="refuses the token"):
        Client(served.url, "another").get()
    with pytest.raises(Problem, match="refuses the token"):
        Client(served.url, "another").put("/stop", {})
    assert ask(served, "/get")["version"] == 0


def test_what_a_client_makes_of_answers(served: Served) -> None:
    served.store.clear()
    with pytest.raises(Missing):
        Client(served.url, TOKEN).get()
    served.store.reset(TWO)
    with pytest.raises(Conflict):
        Client(served.url, TOKEN).put("/put", {**ONE.to_json(), "version": 0})


class Following:
    """A source in a loop, and the numbers of workers that it wants."""

    def __init__(self, make: Callable[..., Source]) -> None:
        self.selector = selectors.PollSelector()
        self.wanted: list[int] = []
        self.found: list[bool] = []
        self.said: list[str] = []
        self.source = make(self.selector, self._follow, self.said.append)

    def _follow(self, workers: Sequence[str], *, found: bool = False) -> str | None:
        self.found.append(found)
        self.wanted.append(len(workers))
        return "there are 3 slots" if len(workers) > 3 else None

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, (self.wanted, self.said)
            for key, events in self.selector.select(0.05):
                key.data(events)
            self.source.advance()

    def asked(self) -> str | None:
        answers: list[str | None] = []
        self.source.ask(answers.append)
        self.until(lambda: answers)
        return answers[0]


def kept(document: Document = ONE) -> ClusterStore:
    result = ClusterStore()
    result.reset(document)
    return result


def test_a_runner_follows_a_server_that_comes_and_goes(served: Served) -> None:
    job = Following(
        lambda selector, follow, say: OtherServer(kept(), served.url, TOKEN, selector, follow, say)
    )
    job.until(lambda: job.wanted == [1])
    served.stop()
    assert "does not answer" in str(job.asked())
    job.until(lambda: len(job.said) == 1)
    assert "does not answer" in job.said[0]
    assert "the job goes on without it" in job.said[0]
    served.store.put(TWO)
    served.start()
    job.until(lambda: job.wanted == [1, 2])
    assert job.found == [True, False]
    assert len(job.said) == 2
    assert "answers again" in job.said[1]
    job.source.tell(["10.0.0.1:10000", "10.0.0.2:10000"])
    job.until(lambda: served.store.version == 2)
    assert job.asked() is None
    job.source.close()


def test_an_answer_may_be_faster_than_the_document_that_was_there(served: Served) -> None:
    job = Following(
        lambda selector, follow, say: OtherServer(kept(), served.url, TOKEN, selector, follow, say)
    )
    assert isinstance(job.source, OtherServer)
    answers: list[str | None] = []
    job.source._answers.append(answers.append)
    job.source._take({"answer": ["10.0.0.1:7"], "version": 0})
    job.until(lambda: job.wanted == [1, 1])
    assert (job.found, answers) == ([True, True], [None])
    served.store.put(TWO)
    job.until(lambda: job.wanted == [1, 1, 2])
    assert job.found[2] is False
    job.source.close()


def test_without_the_server_s_token_a_job_goes_on_and_says_so_once(served: Served) -> None:
    job = Following(
        lambda selector, follow, say: OtherServer(kept(), served.url, "w", selector, follow, say)
    )
    job.until(lambda: job.said)
    why = f"the config server {served.url} refuses the token (KUNGFU_CONFIG_TOKEN)"
    for _ in range(2):
        assert job.asked() == why
    assert job.said == [f"{why}; the job goes on without it"]
    assert job.wanted == []
    job.source.close()


def test_workers_that_are_no_addresses_are_not_followed(served: Served) -> None:
    job = Following(
        lambda selector, follow, say: OtherServer(kept(), served.url, TOKEN, selector, follow, say)
    )
    job.until(lambda: job.wanted == [1])
    served.store.put(Document((), ("10.0.0.1:10000", "nonsense")))  # as others may keep it
    job.until(lambda: job.said)
    assert "'workers' has 'nonsense', which is not an address and a port" in job.said[0]
    assert "'nonsense'" in str(job.asked())
    assert job.wanted == [1]
    job.source.close()


def test_a_server_without_a_document_gets_the_job_s(served: Served) -> None:
    served.stop()
    served.store.clear()
    job = Following(
        lambda selector, follow, say: OtherServer(
            kept(TWO), served.url, TOKEN, selector, follow, say
        )
    )
    job.until(lambda: job.said)  # it comes later than the job, which has changed since
    job.source.tell(["10.0.0.1:10000"])
    assert "does not answer" in str(job.asked())
    served.start()
    job.until(lambda: len(job.said) == 2)
    assert served.store.document is not None
    assert served.store.document.workers == ONE.workers
    # What the job has written itself is nobody's wish, and takes nothing back.
    job.until(lambda: job.source._seen == served.store.version)
    job.source.tell(TWO.workers)
    job.until(lambda: job.source._seen == served.store.version > 2)
    assert job.wanted == []
    served.store.put(ONE)
    job.until(lambda: job.wanted == [1])
    assert job.found == [False]
    job.source.close()


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


def test_a_job_serves_its_own_document() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    document = kept()
    job = Following(
        lambda selector, follow, say: OwnServer(document, port, TOKEN, selector, follow, say)
    )
    document.put(TWO)
    assert job.wanted == [1, 2]
    job.source.tell(["10.0.0.1:10000", "10.0.0.2:7"])
    assert job.wanted == [1, 2]
    assert document.document is not None
    assert document.document.workers[1] == "10.0.0.2:7"
    document.put(Document((), ("a:1", "a:2", "a:3", "a:4")))
    assert job.said == ["the config server's document is not followed: there are 3 slots"]
    job.source.close()


def test_the_command_keeps_its_document(tmp_path: Path) -> None:
    init = tmp_path / "init.json"
    init.write_text(json.dumps(TWO.to_json()))
    words = ["-port", "0", "-file", str(tmp_path / "kept.json"), "-init", str(init)]
    command = [sys.executable, "-m", "kungfu_tf.launcher.config_server", *words]
    environ = {**os.environ, "KUNGFU_CONFIG_TOKEN": TOKEN}
    with contextlib.ExitStack() as ending:
        server = ending.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        )
        ending.callback(server.kill)
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        assert Client(url, TOKEN).get()[2] == 0
        words = ["-resize", "3", "-config-server", url]
        options = flags.parse(words)
        said = resizing.run(options, {"KUNGFU_CONFIG_TOKEN": TOKEN})
        assert said == "the document has 3 workers now; it had 2"
        Client(url, TOKEN).put("/reset", ONE.to_json())
        request = urllib.request.Request(
            f"{url}/stop", method="POST", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        urllib.request.urlopen(request, timeout=DEADLINE).close()
        assert server.wait(DEADLINE) == 0
    assert json.loads((tmp_path / "kept.json").read_text())["version"] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-port", "x"], "is not a port"),
        (["-nonsense"], "there is no '-nonsense'"),
        (["-port"], "-port needs a value"),
    ],
)
def test_wrong_command_lines(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config_server.main(words) == 2
    assert why in capsys.readouterr().err


def test_a_server_wants_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUNGFU_CONFIG_TOKEN", raising=False)
    assert config_server.main([]) == 2
    assert "the config server needs a token" in capsys.readouterr().err
    monkeypatch.setenv("KUNGFU_CONFIG_TOKEN", "short")
    assert config_server.main([]) == 2


def test_without_a_job_there_is_nothing_to_resize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resizing, "running", list)
    with pytest.raises(LaunchError, match="no job of this user"):
        resizing._find(None)
