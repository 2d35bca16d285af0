"""The store of the cluster document in etcd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kungfu_tf.launcher.channels.etcd import Etcd
from kungfu_tf.launcher.document import opening
from kungfu_tf.launcher.document.store import Missing, Problem
from tests import etcd_server, ports
from tests.etcd_server import EtcdServer
from tests.python.launcher.served import NONSENSE, ONE, TWO, answering


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """It speaks TLS."""
    with etcd_server.running(tmp_path_factory.mktemp("etcd"), tls=True) as server:
        yield server


@pytest.fixture
def trusted(etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> EtcdServer:
    """OpenSSL trusts it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(etcd.authority))
    return etcd


def test_a_certificate_of_an_unknown_authority_is_told(etcd: EtcdServer) -> None:
    with pytest.raises(Problem, match=r"does not answer: .*certificate verify failed"):
        opening.open_store(f"etcds://{etcd.place}/job", "").get()


def test_without_tls_there_is_no_answer(etcd: EtcdServer) -> None:
    with pytest.raises(Problem, match="answer"):
        opening.open_store(f"etcd://{etcd.place}/job", "").get()


def test_each_job_has_a_document_of_its_own(trusted: EtcdServer) -> None:
    one, other = (
        opening.open_store(f"etcds://{trusted.place}/{job}", "") for job in ("team/a", "team/b")
    )
    one.reset(ONE)
    with pytest.raises(Missing, match="there is no key /team/b/cluster"):
        other.get()
    other.reset(TWO)
    assert one.get().says_as(ONE)


def test_the_members_are_asked_in_turn(trusted: EtcdServer) -> None:
    absent = f"127.0.0.1:{ports.take()[0]}"
    store = opening.open_store(f"etcds://{absent},{trusted.place}/turn", "")
    before = store.reset(ONE)
    trusted.restart()
    assert store.get() == before
    trusted.kill()
    try:
        with pytest.raises(Problem, match=r"does not answer: .*refused"):
            store.get()
    finally:
        trusted.start()
    assert store.get() == before


def test_a_person_may_leave_the_version_out(trusted: EtcdServer) -> None:
    store = opening.open_store(f"etcds://{trusted.place}/person", "")
    before = store.reset(ONE)
    client = Etcd([trusted.base], None, "")
    written = client.write("/person/cluster", b'{"workers": ["10.0.0.1:10000"]}')
    now = store.get(unless=before.version)
    assert (now.runners, now.workers, now.version) == ((), ONE.workers, written)


@pytest.mark.parametrize(
    "nonsense", [*NONSENSE, b"HTTP/1.1 200 OK\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n[3"]
)
def test_nonsense_is_a_problem(nonsense: bytes) -> None:
    with answering([nonsense]) as (url, asked):
        with pytest.raises(Problem, match=r"answer|refuses"):
            opening.open_store(url.replace("http", "etcd") + "/job", "").get()
        assert len(asked) == 1
