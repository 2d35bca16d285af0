"""The store of the cluster document in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.file_store import FileStore
from kungfu_tf.launcher.document.store import Problem
from tests.python.launcher.served import ONE, TWO


def test_each_change_makes_the_version_one_higher(tmp_path: Path) -> None:
    kept = FileStore(tmp_path / "cluster.json")
    assert kept.reset(ONE).version == 0
    assert kept.put(Document((), TWO.workers, 0)).version == 1
    kept.clear()
    again = FileStore(tmp_path / "cluster.json")
    assert (again.document, again.version) == (None, 2)
    assert again.reset(ONE).version == 3
    assert again.reset(Document((), ONE.workers, 7)).version == 7


def test_what_cannot_be_kept_does_not_change_anything(tmp_path: Path) -> None:
    heard = []
    kept = FileStore(tmp_path / "cluster.json")
    before = kept.reset(ONE)
    kept.watchers.append(lambda: heard.append(kept.version))
    (tmp_path / "cluster.json.new").mkdir()  # in the way of the new file
    for change in (lambda: kept.put(TWO), lambda: kept.reset(TWO), kept.clear):
        with pytest.raises(Problem, match="cannot keep the document: Is a directory"):
            change()
    assert (kept.document, kept.version, heard) == (before, before.version, [])


@pytest.mark.parametrize("content", ["", "[]", "{", '{"version": "x"}', "[" * 100_000])
def test_a_file_without_a_document(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(Problem, match="has no document: "):
        FileStore(tmp_path / "cluster.json")
