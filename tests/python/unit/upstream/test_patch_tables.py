"""Each row of the tables, with Keras or TensorFlow as if they had renamed what it names."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.exchange import loss_scale
from kungfu_tf.keras import patches as of_keras
from kungfu_tf.tf1 import patches as of_sessions
from kungfu_tf.upstream import generations, patches
from kungfu_tf.upstream.patches import Owner, Patch

[PACKAGE] = [p for p in generations.packages() if p.module.Model is tf.keras.Model]
TABLES: dict[str, tuple[Any, tuple[Patch, ...]]] = {
    "keras": (PACKAGE, of_keras.KERAS_3 if PACKAGE.generation == 3 else of_keras.KERAS_2),
    "loss scale": (PACKAGE, loss_scale.KERAS_3 if PACKAGE.generation == 3 else loss_scale.KERAS_2),
    "sessions": (tf, of_sessions.SESSION),
}
ROWS = [(table, patch) for table, (_, rows) in TABLES.items() for patch in rows]


@pytest.fixture(params=ROWS, ids=lambda row: f"{row[0]}: {row[1].label}")
def lost(request, monkeypatch) -> Iterator[tuple[str, Patch]]:
    """A row whose name neither its owner nor a base class of that has."""
    table, patch = request.param
    package, _ = TABLES[table]
    owner = patch.owner.find(package, patch.name)
    for each in getattr(owner, "__mro__", [owner]):
        if patch.name in vars(each) and each is not object:
            monkeypatch.delattr(each, patch.name)
    if patch.name == "__init__":  # every class has one: then the class is lost
        gone = dataclasses.replace(patch, owner=Owner(patch.owner.label, _nowhere))
        rows = tuple(gone if each is patch else each for each in TABLES[table][1])
        monkeypatch.setitem(TABLES, table, (package, rows))
    else:
        assert not hasattr(owner, patch.name)
    yield table, patch


def _nowhere(package: Any, name: str) -> Any:
    raise LookupError(name)


def install(table: str, title: str) -> None:
    package, rows = TABLES[table]
    patches.install(rows, package, title, is_single_process=peer.is_single_process)


def test_what_a_row_names_is_there() -> None:
    for table in TABLES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            install(table, "it")


def test_several_processes(lost, monkeypatch) -> None:
    table, patch = lost
    monkeypatch.setattr(peer, "is_single_process", lambda: False)
    if patch.is_needed:
        with pytest.raises(errors.UnsupportedVersionError) as raised:
            install(table, "Keras 9.9")
        assert f"it has no {patch.label} ({patch.purpose})" in str(raised.value)
    else:
        title = f"Keras without {patch.label}"
        with pytest.warns(UserWarning, match="Training is right without it") as caught:
            install(table, title)
            install(table, title)
        assert len(caught) == 1
        assert f"{patch.label} ({patch.purpose})" in str(caught[0].message)


def test_a_process_that_is_alone(lost) -> None:
    table, _ = lost
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        install(table, "it")


@pytest.mark.skipif(hasattr(tf.compat.v1, "estimator"), reason="this TensorFlow has Estimators")
def test_estimators_that_an_older_tensorflow_has_left_behind(tmp_path, monkeypatch) -> None:
    """pip upgrades TensorFlow 2.15 to a newer one, and keeps what only the older one needed."""
    folder = tmp_path / "tensorflow_estimator"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('TensorFlow is too new')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(peer, "is_single_process", lambda: False)
    of_sessions.install(with_estimators=True)
