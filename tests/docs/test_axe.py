"""The pages are examined in a browser, by a script that stands in for axe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs.tools import axe, chromium

# Finds pages without a title.
SCRIPT = """
window.axe = { run: async (page) => {
  if (page.title === "broken") throw new Error("no result");
  const node = { impact: "serious", html: "<title>", failureSummary: "Fix this:\\n  no title" };
  return { violations: page.title ? [] : [{ id: "title", nodes: [node] }] };
} };
"""

pytestmark = pytest.mark.skipif(
    not shutil.which(chromium.NAME), reason=f"there is no {chromium.NAME}"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for title in ("", "a title", "broken"):
        file = tmp_path / f"{title.replace(' ', '-') or 'none'}.html"
        file.write_text(f"<!doctype html><title>{title}</title>")
    (tmp_path / "axe.js").write_text(SCRIPT)
    return tmp_path


def test_what_is_found_is_told_by_page_and_colours(site: Path) -> None:
    pages = ["none.html", "a-title.html"]
    none, with_title = axe.findings(site, site / "axe.js", pages)
    assert with_title == []
    assert [(each["page"], each["colours"]) for each in none] == [
        ("none.html", "default"),
        ("none.html", "slate"),
    ]
    assert {(each["rule"], each["impact"], each["why"]) for each in none} == {
        ("title", "serious", "no title")
    }


def test_a_page_that_cannot_be_examined_is_named(site: Path) -> None:
    with pytest.raises(RuntimeError, match=r"broken.html: Error: no result"):
        list(axe.findings(site, site / "axe.js", ["broken.html"]))


def test_serious_findings_are_errors(site: Path, monkeypatch, capsys) -> None:
    (site / "broken.html").unlink()
    monkeypatch.setattr("sys.argv", ["axe", str(site), str(site / "axe.js")])
    assert axe.main() == 1
    assert "none.html, default: serious: title: <title>" in capsys.readouterr().out
    (site / "none.html").unlink()
    assert axe.main() == 0
