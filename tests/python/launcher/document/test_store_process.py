"""What the process that follows a store makes of the runner's requests."""

from __future__ import annotations

from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.document.store import Problem
from kungfu_tf.launcher.document.store_process import StoreWatch
from tests.python.launcher.served import ONE, TWO, kept

THREE = [*TWO.workers, "10.0.0.1:10002"]


def workers(store: MemoryStore) -> list[str]:
    return [*store.get().workers]


def test_a_runner_may_not_have_heard_of_its_own_document_yet() -> None:
    store = kept(ONE)
    watch = StoreWatch(store, None)
    watch.obey({"members": TWO.workers, "seen": 0})
    watch.obey({"members": THREE, "seen": 0})
    assert workers(store) == THREE


def test_what_another_one_has_written_is_left_alone() -> None:
    store = kept(ONE)
    watch = StoreWatch(store, None)
    watch.obey({"members": TWO.workers, "seen": 0})
    store.put(Document((), ("10.0.0.9:1",)))
    watch.obey({"members": THREE, "seen": 0})
    assert workers(store) == ["10.0.0.9:1"]


class Breaking(MemoryStore):
    """Does what it is asked, and breaks before it says so."""

    is_broken = True

    def put(self, wanted: Document) -> Document:
        result = super().put(wanted)
        if self.is_broken:
            raise Problem("does not answer")
        return result


def test_a_document_without_an_answer_is_the_runner_s_own() -> None:
    store = Breaking()
    store.reset(ONE)
    watch = StoreWatch(store, None)
    watch.obey({"members": TWO.workers, "seen": 0})
    assert workers(store) == [*TWO.workers]
    store.is_broken = False
    watch.obey({"members": THREE, "seen": 0})
    assert workers(store) == THREE
