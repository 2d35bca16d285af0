"""The peer that a worker runs."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator

import pytest

from kungfu_tf.engines import orders
from kungfu_tf.engines.worker import Worker
from kungfu_tf.function_launch.results import Child


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("127.0.0.1")
    yield worker
    worker.close()


def ended(worker: Worker, fn: object, rows: int | None = None) -> Child:
    order = orders.new(fn, (), None, None)._replace(peers=(worker.address,))
    return worker.run(order.again(0), {}, rows)


def test_it_gets_nothing_of_another_job(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = {"KUNGFU_CONTROL": "/outer", "KUNGFU_MEMBERSHIP": "joining", "KUNGFU_PEERS": "a:1,b:2"}
    for name, text in outer.items():
        monkeypatch.setenv(name, text)

    def fn() -> dict[str, str]:
        return {name: text for name, text in os.environ.items() if name in outer}

    child = ended(worker, fn)
    assert child.record is not None
    assert pickle.loads(child.record[1:]) == {"KUNGFU_PEERS": worker.address}


def test_it_inherits_its_rows(worker: Worker) -> None:
    def fn() -> bytes:
        with open(os.environ["KUNGFU_ROWS"], "rb") as file:
            return file.read()

    with tempfile.TemporaryFile() as file:
        file.write(b"rows")
        file.flush()
        child = ended(worker, fn, file.fileno())
    assert child.record is not None
    assert pickle.loads(child.record[1:]) == b"rows"
