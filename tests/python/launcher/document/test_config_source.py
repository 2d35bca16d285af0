"""The runner of a job and the document that it follows: another server's, or its own."""

from __future__ import annotations

import selectors
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

import pytest

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.config_source import OtherServer, OwnServer, Source
from kungfu_tf.launcher.document.http_store import HttpStore
from tests import ports
from tests.python.launcher.served import DEADLINE, ONE, TOKEN, TWO, Served, kept


class SourceInALoop:
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
            event_turn.take(self.selector, self.selector.select(0.05))
            self.source.advance()

    def asked(self) -> str | None:
        answers: list[str | None] = []
        self.source.ask(answers.append)
        self.until(lambda: answers)
        return answers[0]


def test_a_runner_follows_a_server_that_comes_and_goes(served: Served) -> None:
    job = SourceInALoop(
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


def test_who_takes_part_is_told_as_soon_as_the_server_is_back(served: Served) -> None:
    job = SourceInALoop(
        lambda selector, follow, say: OtherServer(kept(), served.url, TOKEN, selector, follow, say)
    )
    job.until(lambda: job.wanted == [1])
    served.stop()
    job.source.tell(TWO.workers)
    assert "does not answer" in str(job.asked())
    served.start()
    job.until(lambda: job.source._seen == served.store.version == 1)
    assert served.store.document is not None
    assert (served.store.document.workers, job.wanted) == (TWO.workers, [1])
    job.source.close()


def test_an_answer_may_be_faster_than_the_document_that_was_there(served: Served) -> None:
    job = SourceInALoop(
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
    job = SourceInALoop(
        lambda selector, follow, say: OtherServer(kept(), served.url, "w", selector, follow, say)
    )
    job.until(lambda: job.said)
    why = f"the config server {served.url} refuses the token (KUNGFU_CONFIG_TOKEN)"
    for _ in range(2):
        assert job.asked() == why
    assert job.said == [f"{why}; the job goes on without it"]
    assert job.wanted == []
    job.source.close()


def test_what_is_no_document_is_said_once_and_not_followed(served: Served) -> None:
    job = SourceInALoop(
        lambda selector, follow, say: OtherServer(kept(), served.url, TOKEN, selector, follow, say)
    )
    job.until(lambda: job.wanted == [1])
    served.store.put(Document((), ("10.0.0.1:10000", "nonsense")))  # as others may keep it
    job.until(lambda: job.said)
    assert "'workers' has 'nonsense', which is not an address and a port" in job.said[0]
    assert "'nonsense'" in str(job.asked())
    assert job.wanted == [1]
    served.store.reset(TWO)
    job.until(lambda: job.wanted == [1, 2])
    assert len(job.said) == 2
    assert "answers again" in job.said[1]
    job.source.close()


def test_a_server_without_a_document_gets_the_job_s(served: Served) -> None:
    served.stop()
    served.store.clear()
    job = SourceInALoop(
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


def test_a_job_serves_its_own_document() -> None:
    port = ports.take()[0]
    document = kept()
    job = SourceInALoop(
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


def test_a_job_s_own_server_is_for_its_host_and_ends_with_the_job() -> None:
    port = ports.take()[0]
    job = SourceInALoop(
        lambda selector, follow, say: OwnServer(kept(), port, TOKEN, selector, follow, say)
    )
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=DEADLINE)
    url = f"http://127.0.0.1:{port}"
    stop_it = urllib.request.Request(
        f"{url}/stop", method="POST", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    heard: list[object] = []

    def stop() -> None:
        try:
            urllib.request.urlopen(stop_it, timeout=DEADLINE)
        except urllib.error.HTTPError as error:
            with error:
                heard.append(error.code)
        heard.append(HttpStore(url, TOKEN).get().says_as(ONE))

    asking = threading.Thread(target=stop)
    asking.start()
    job.until(lambda: not asking.is_alive())
    assert heard == [403, True]
    job.source.close()
