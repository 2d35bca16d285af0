"""Finds what the built pages would load from elsewhere: `python -m docs.tools.offline build/docs`.

A link that a reader follows is no load.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADS = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_IN_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
# What Material's own script loads for pages that have a diagram of Mermaid.
_NEEDS_A_SCRIPT = "mermaid"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in _LOADS.get(tag, ()):
            if _ELSEWHERE.match(given.get(name) or "") and given.get("rel") != "canonical":
                self.loads.append(f"<{tag} {name}={given[name]}>")
        if _NEEDS_A_SCRIPT in (given.get("class") or "").split():
            self.loads.append(f"<{tag} class={_NEEDS_A_SCRIPT}>")
        self._look_in_css(given.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self._look_in_css(data)

    def _look_in_css(self, text: str) -> None:
        self.loads += [f"url({address})" for address in _IN_CSS.findall(text)]


def loads_in(name: str, text: str) -> list[str]:
    """What a file of that name loads from elsewhere."""
    if name.endswith(".css"):
        return [f"url({address})" for address in _IN_CSS.findall(text)]
    page = _Page()
    page.feed(text)
    return page.loads


def problems_in(site: Path) -> Iterator[str]:
    """A line for each load in the files of a site."""
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]):
        for load in loads_in(file.name, file.read_text()):
            yield f"{file.relative_to(site)}: {load} is not part of the site"


def main() -> int:
    """Prints them. Returns the exit code."""
    problems = list(problems_in(Path(sys.argv[1])))
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
