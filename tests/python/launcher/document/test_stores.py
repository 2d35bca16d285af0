"""What holds for each store of the cluster document."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kungfu_tf.launcher.document import etcd_store, http_store
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.store import Conflict, Missing, Problem, Store
from tests.python.launcher.document.stores import KINDS
from tests.python.launcher.served import DEADLINE, ONE, TWO
from tests.waiting import until


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Each kind of store, once; it keeps what the tests before have left there."""
    with contextlib.ExitStack() as ending:

        @functools.cache
        def open_kind(name: str) -> Any:
            return ending.enter_context(KINDS[name](tmp_path_factory.mktemp("store")))

        yield open_kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, opened: Callable[[str], Any]) -> Any:
    return opened(request.param)


def of(*names: str) -> pytest.MarkDecorator:
    """These kinds only."""
    return pytest.mark.parametrize("kind", names, indirect=True)


servers = of("config server", "etcd")


def test_each_change_gives_a_higher_version(kind: Any) -> None:
    store = kind.open()
    store.clear()
    for read in (store.get, lambda: store.put(ONE)):
        with pytest.raises(Missing, match="has no document"):
            read()
    first = store.reset(ONE)
    assert store.get() == first == dataclasses.replace(ONE, version=first.version)
    assert store.put(ONE) == first  # the same
    second = store.put(TWO)
    assert store.get() == second
    assert second.says_as(TWO)
    store.clear()
    third = store.reset(ONE)
    assert first.version < second.version < third.version


def test_a_lost_race_is_told(kind: Any) -> None:
    one, other = kind.open(), kind.open()
    read = one.reset(ONE)
    won = one.put(dataclasses.replace(TWO, version=read.version))
    with pytest.raises(Conflict, match=r"has (version|another document) "):
        other.put(dataclasses.replace(ONE, runners=(), version=read.version))
    assert other.get() == won
    other.clear()
    with pytest.raises(Missing):
        one.put(dataclasses.replace(TWO, version=won.version))


@servers
def test_no_change_of_several_writers_is_lost(kind: Any) -> None:
    kind.open().reset(ONE)

    def add(host: int) -> None:
        store = kind.open()
        for port in range(1, 6):
            while True:
                now = store.get()
                workers = (*now.workers, f"10.0.1.{host}:{port}")
                with contextlib.suppress(Conflict):
                    store.put(dataclasses.replace(now, workers=workers))
                    break

    writers = [threading.Thread(target=add, args=(host,)) for host in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(DEADLINE)
    added = {f"10.0.1.{host}:{port}" for host in range(4) for port in range(1, 6)}
    assert {*kind.open().get().workers} == {*ONE.workers} | added


class Waiting:
    """A thread that waits until the document has another version."""

    def __init__(self, store: Store, version: int | None) -> None:
        self._heard: list[Document | Problem] = []
        self._thread = threading.Thread(target=self._wait, args=(store, version))
        self._thread.start()

    def _wait(self, store: Store, version: int | None) -> None:
        try:
            self._heard.append(store.get(unless=version))
        except Problem as problem:
            self._heard.append(problem)

    def heard(self) -> Document | Problem:
        self._thread.join(DEADLINE)
        return self._heard[0]


def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """How long a store waits for another version."""
    for module in (http_store, etcd_store):
        monkeypatch.setattr(module, "WAIT", seconds)


@servers
def test_a_change_is_seen_at_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    patience(monkeypatch, 10 * DEADLINE)
    store = kind.open()
    before = store.reset(ONE)
    waiting = Waiting(kind.open(), before.version)
    after = store.put(TWO)
    assert waiting.heard() == after
    assert store.get(unless=before.version) == after  # it has changed already
    waiting = Waiting(kind.open(), after.version)
    store.clear()
    assert isinstance(waiting.heard(), Missing)


def test_without_a_change_there_is_an_answer_all_the_same(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience(monkeypatch, 0.2)
    store = kind.open()
    now = store.reset(ONE)
    assert store.get(unless=now.version) == now


def test_a_name_has_one_holder(kind: Any) -> None:
    one, other = kind.open(), kind.open()
    assert one.claim("leader", "10.0.0.1", 60) == "10.0.0.1"
    assert other.claim("leader", "10.0.0.2", 60) == "10.0.0.1"
    assert one.claim("leader", "10.0.0.1", 60) == "10.0.0.1"
    assert other.claim("another", "10.0.0.2", 60) == "10.0.0.2"
    one.claim("leader", "10.0.0.1", 0)
    assert other.claim("leader", "10.0.0.2", 60) == "10.0.0.2"
    assert one.claim("leader", "10.0.0.1", 60) == "10.0.0.2"


def test_a_holder_that_is_gone_holds_nothing(kind: Any) -> None:
    one, other = kind.open(), kind.open()
    assert one.claim("short", "10.0.0.1", 1) == "10.0.0.1"
    assert other.claim("short", "10.0.0.2", 1) == "10.0.0.1"
    until(lambda: other.claim("short", "10.0.0.2", 1) == "10.0.0.2", lambda: "it is free")


@of("etcd")
def test_a_claim_outlives_a_restart(kind: Any) -> None:
    one, other = kind.open(), kind.open()
    assert one.claim("kept", "10.0.0.1", 60) == "10.0.0.1"
    kind.restart()
    assert other.claim("kept", "10.0.0.2", 60) == "10.0.0.1"
    assert one.claim("kept", "10.0.0.1", 60) == "10.0.0.1"


@of("file", "config server", "etcd")
def test_a_restart_loses_nothing(kind: Any) -> None:
    before = kind.open().reset(TWO)
    kind.restart()
    store = kind.open()
    assert store.get() == before
    assert store.put(ONE).version > before.version


@servers
def test_who_waits_hears_of_an_end_and_asks_again(kind: Any) -> None:
    store = kind.open()
    before = store.reset(TWO)
    waiting = Waiting(store, before.version)
    kind.restart()
    assert isinstance(waiting.heard(), Problem)
    assert store.get() == before


@servers
def test_a_wrong_secret_is_told(kind: Any) -> None:
    store = kind.wrong()
    for call in (store.get, store.clear, lambda: store.put(ONE), lambda: store.reset(ONE)):
        with pytest.raises(Problem, match=r"refuses the .*\(KUNGFU_CONFIG_TOKEN\)"):
            call()


@servers
def test_a_server_that_is_not_there_is_told(kind: Any) -> None:
    store = kind.absent()
    for call in (store.get, store.clear, lambda: store.put(ONE), lambda: store.reset(ONE)):
        with pytest.raises(Problem, match=r"does not answer: .*refused"):
            call()


@of("file", "etcd")
def test_what_is_no_document_is_told(kind: Any) -> None:
    kind.open().reset(ONE)
    with pytest.raises(Problem, match="'nonsense', which is not an address and a port"):
        kind.damage()
        kind.open().get()
    kind.open().reset(TWO)
    kind.restart()
    assert kind.open().get().says_as(TWO)
