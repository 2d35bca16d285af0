"""What a page would load from elsewhere is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import offline


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<a href="https://example.org">elsewhere</a>'),
        ("a.html", '<script src="assets/bundle.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="../assets/main.css">'),
        ("a.html", '<link rel="canonical" href="https://example.org/a.html">'),
        ("a.html", "<p>url(https://example.org/font)</p>"),
        ("a.css", "a { background: url(data:image/svg+xml;x) }"),
    ],
)
def test_what_is_part_of_the_site(name: str, text: str) -> None:
    assert offline.loads_in(name, text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://example.org/a.js"></script>'),
        ("a.html", '<link rel="preconnect" href="//example.org">'),
        ("a.html", '<img alt="" src=http://example.org/a.png>'),
        ("a.html", "<style>@import 'https://example.org/a.css'</style>"),
        ("a.html", '<p style="background: url(https://example.org/a.png)">'),
        ("a.html", '<pre class="mermaid"></pre>'),
        ("a.svg", '<svg><image xlink:href="https://example.org/a.png"/></svg>'),
        ("a.css", "@font-face { src: url('https://example.org/a.woff2') }"),
    ],
)
def test_what_comes_from_elsewhere(name: str, text: str) -> None:
    assert len(offline.loads_in(name, text)) == 1


def test_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.html").write_text('<img src="a.png">')
    (tmp_path / "b" / "c.html").write_text('<img src="//example.org/a.png">')
    (problem,) = offline.problems_in(tmp_path)
    assert problem == "b/c.html: <img src=//example.org/a.png> is not part of the site"
