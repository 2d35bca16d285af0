"""README.md, CHANGELOG.md and CITATION.cff."""

from __future__ import annotations

import re
from pathlib import Path

from kungfu_tf import __version__

ROOT = Path(__file__).parents[2]
MOST_LINES = 150


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES


def test_what_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    assert len(links) > 30
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_each_page_for_users_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert [str(page) for page in pages if str(page) not in navigation] == []


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions, kinds = (re.findall(rf"^{marks} (.*)", text, re.MULTILINE) for marks in ("##", "###"))
    assert versions[0] == "[Unreleased]"
    later = re.compile(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}")
    assert [version for version in versions[1:] if not later.fullmatch(version)] == []
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
