"""What pages show of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import api, generated
from kungfu_tf import config
from kungfu_tf.launcher.options.flags import FLAGS
from kungfu_tf.native import environment


def test_each_flag_has_an_anchor_and_a_row() -> None:
    rows = generated.flags().splitlines()[2:]
    assert len(rows) == len(FLAGS)
    assert all(f'id="{flag.name}"' in row for flag, row in zip(FLAGS, rows, strict=True))
    assert all(row.count("|") == 3 or "delta|reload" in row for row in rows)


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
