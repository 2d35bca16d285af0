"""What MkDocs does with a page before and after it makes HTML of it: see mkdocs.yml."""

from __future__ import annotations

import functools
from typing import Any

from docs.tools import generated, pages


@functools.cache
def _generated() -> dict[str, str]:
    return generated.everything()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts in what is generated, and leaves out what is for our tools."""
    return pages.without_notes(pages.replace_generated(markdown, _generated()))


def on_page_content(html: str, **_: Any) -> str:
    """Lets the keyboard reach tables, which may be wider than the screen."""
    return html.replace("<table>", '<table tabindex="0">')


def on_post_page(output: str, **_: Any) -> str:
    """Gives the theme's search a name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


on_post_template = on_post_page  # of the page for what is not found
