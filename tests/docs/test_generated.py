"""What pages show of the sources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from docs.tools import api, generated, patch_tables
from docs.tools.patch_tables import PACKAGE
from kungfu_tf import config
from kungfu_tf.exchange import loss_scale
from kungfu_tf.keras import patches as of_keras
from kungfu_tf.launcher.options.flags import FLAGS
from kungfu_tf.native import environment
from kungfu_tf.tf1 import patches as of_sessions
from kungfu_tf.upstream.patches import Owner, Patch


def test_each_flag_has_an_anchor_and_a_row() -> None:
    rows = generated.flags().splitlines()[2:]
    assert len(rows) == len(FLAGS)
    assert all(f'id="{flag.name}"' in row for flag, row in zip(FLAGS, rows, strict=True))
    assert all(
        row.count("|") == 3 or any(f in row for f in ("delta|reload", "stop|survive"))
        for row in rows
    )


def test_each_variable_has_an_anchor_and_a_row() -> None:
    settings = environment.settings()
    rows = generated.settings(settings).splitlines()[2:]
    assert len(rows) == len(settings)
    assert all(f'id="{setting.name}"' in "".join(rows) for setting in settings)


def test_a_secret_has_no_default() -> None:
    def row(secret: bool) -> str:
        any_text = config.Type("text", str)
        setting = config.Setting("KUNGFU_X", any_text, "hidden", "a < b", secret=secret)
        return generated.settings([setting]).splitlines()[2]

    assert "| `hidden` | a &lt; b |" in row(secret=False)
    assert "|  | a &lt; b |" in row(secret=True)


def test_changes_link_within_the_site() -> None:
    text = "# Changelog\n\n[one](docs/project/deprecation.md)\n"
    assert generated.changes(text) == "\n[one](deprecation.md)\n"


def test_public_names_are_those_that_the_modules_export() -> None:
    names = api.public_names()
    assert {"kungfu_tf", "kungfu_tf.compat", "kungfu_tf.ops"} <= set(names)
    assert "all_reduce" in names["kungfu_tf.ops"]


def test_a_name_that_no_page_explains_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "public_names", lambda: {"kungfu_tf.ops": ["all_reduce", "gather"]})
    page = tmp_path / "reference" / "api" / "ops.html"
    page.parent.mkdir(parents=True)
    page.write_text('<h2 id="kungfu_tf.ops.gather">')
    expected = "reference/api/ops.html: kungfu_tf.ops.all_reduce is missing"
    assert list(api.missing(tmp_path)) == [expected]


TABLES = [of_keras.KERAS_3, of_keras.KERAS_2, loss_scale.KERAS_3, loss_scale.KERAS_2]
SESSIONS = [of_sessions.SESSION, of_sessions.ESTIMATOR]
PATCHES = {patch for table in [*TABLES, *SESSIONS] for patch in table}


def described(patches: Iterable[Patch]) -> list[tuple[str, str, bool, bool]]:
    return sorted((p.label, p.purpose, p.is_needed, p.ours is None) for p in patches)


def test_tables_of_patches_are_read_as_they_are() -> None:
    assert described(patch_tables.rows()) == described(PATCHES)


def test_no_table_of_patches_is_left_out() -> None:
    modules = {PACKAGE / file for file, _, _ in patch_tables.TABLES}
    rows = re.compile(r"^    Patch\(", re.MULTILINE)
    there = {file for file in PACKAGE.rglob("*.py") if rows.search(file.read_text())}
    assert there == modules


def test_each_patch_has_a_row_of_its_kind() -> None:
    owner = Owner("Model", lambda package, name: None)
    rows = {
        Patch(owner, "fit", print, "a | b"): "Keras 3, Keras 2",
        Patch(owner, "_call", None, "c", is_needed=False): "Keras 3",
    }
    (patched,) = generated.patches(rows, patched=True).splitlines()[2:]
    (in_use,) = generated.patches(rows, patched=False).splitlines()[2:]
    assert patched == "| `Model.fit` | Keras 3, Keras 2 | a &#124; b | needed |"
    assert in_use == "| `Model._call` | Keras 3 | c | comfort |"


def test_rooms_are_those_of_the_maps() -> None:
    made = generated.everything()
    folders = {file.parent.name for file in PACKAGE.glob("*/*.py")}
    assert {name for name in folders if f"`{name}/`" not in made["rooms of Python"]} == set()
    launcher = {file.parent.name for file in (PACKAGE / "launcher").glob("*/*.py")}
    rows = made["rooms of the launcher"].splitlines()[2:]
    assert {row.split("`")[1].removesuffix("/") for row in rows} == launcher
