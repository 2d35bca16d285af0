"""What pages show of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import api, generated
from kungfu_tf import _environment
from kungfu_tf.launcher.flags import FLAGS


def test_each_flag_has_an_anchor_and_a_row() -> None:
    rows = generated.flags().splitlines()[2:]
    assert len(rows) == len(FLAGS)
    assert all(f'id="{flag.name}"' in row for flag, row in zip(FLAGS, rows, strict=True))
    assert all(row.count("|") == 3 or "delta|reload" in row for row in rows)


def test_each_variable_has_an_anchor_and_a_row() -> None:
    variables = _environment.variables()
    rows = generated.variables(variables).splitlines()[2:]
    assert len(rows) == len(variables)
    assert all(f'id="{v.name}"' in "".join(rows) for v in variables)


def test_a_default_names_no_home_and_a_secret_has_none() -> None:
    def row(name: str, default: str) -> str:
        variable = _environment.Variable(name, "a < b", lambda: default, lambda text: None)
        return generated.variables([variable]).splitlines()[2]

    assert "| `~/cache` | a &lt; b |" in row("KUNGFU_CACHE_DIR", str(Path.home() / "cache"))
    assert "|  | a &lt; b |" in row("KUNGFU_SECRET", "hidden")


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
