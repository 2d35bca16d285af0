"""The store of the cluster document."""

from pathlib import Path
from typing import Any

import pytest

from kungfu_tf.launcher.document import cluster_store
from kungfu_tf.launcher.document.cluster_store import ClusterStore, Document
from tests.python.launcher.served import ONE, TWO


def test_a_change_wants_the_version_that_it_replaces(tmp_path: Path) -> None:
    kept = ClusterStore(tmp_path / "cluster.json")
    with pytest.raises(cluster_store.Conflict, match="there is no document"):
        kept.put(ONE)
    assert kept.reset(ONE).version == 0
    assert kept.put(Document((), TWO.workers, 0)).version == 1
    with pytest.raises(cluster_store.Conflict, match="the version is 1 now, not 0"):
        kept.put(Document((), ONE.workers, 0))
    assert kept.put(Document((), TWO.workers)).version == 1  # the same
    assert ClusterStore(tmp_path / "cluster.json").document == kept.document
    kept.clear()
    again = ClusterStore(tmp_path / "cluster.json")
    assert again.document is None
    assert again.reset(ONE).version == 3


def test_what_cannot_be_kept_does_not_change_anything(tmp_path: Path) -> None:
    heard = []
    kept = ClusterStore(tmp_path / "cluster.json")
    before = kept.reset(ONE)
    kept.watchers.append(lambda: heard.append(kept.version))
    (tmp_path / "cluster.json.new").mkdir()  # in the way of the new file
    for change in (lambda: kept.put(TWO), lambda: kept.reset(TWO), kept.clear):
        with pytest.raises(OSError):
            change()
    assert (kept.document, kept.version, heard) == (before, before.version, [])


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
        cluster_store.parse(content)
